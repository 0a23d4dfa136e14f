"""Draws texts and says how Python reads them: a line each of JSON, the text, what
strip and split make of it, the number of int and the bits of that of float, or null
where they raise.

usage: texts.py COUNT SEED"""
import json
import random
import struct
import sys

COUNT, SEED = int(sys.argv[1]), int(sys.argv[2])
R = random.Random(SEED)
SPACES = [" ", "\t", "\n", "\v", "\f", "\r", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\xa0", "\u1680", "\u2003",
          "\u2028", "\u202f", "\u205f", "\u3000", "\u200b", "\ufeff", "\x00", "\u180e"]
DIGITS = list("0012345679") + ["\u0661", "\u0967", "\uff15", "\U0001d7d7", "\u00b2"]
WORDS = ["inf", "Infinity", "nan", "NaN", "INF", "infinit", "0x1f", "1e400", "-1e400", "1e-400", "4.9e-324",
         "9223372036854775807", "-9223372036854775808", "9223372036854775808", "0b1", "1j", "True", "\u0131nf", "one"]


def digits():
    parts = [R.choice(DIGITS) for _ in range(R.randint(1, 4))]
    return R.choice(["", "", "", "", "_"]).join(parts)


def number():
    r = R.random()
    if r < .15:
        return R.choice(WORDS)
    s = R.choice(["", "", "", "+", "-", "+-", "- "]) + digits()
    if R.random() < .1:
        s = R.choice(["_" + s, s + "_", s.replace("_", "__")])
    if R.random() < .4:
        s += R.choice([".", "."]) + R.choice(["", digits()])
    if R.random() < .3:
        s += R.choice("eE") + R.choice(["", "+", "-", "_"]) + R.choice(["", digits()])
    return s


def text():
    around = lambda: "".join(R.choice(SPACES) for _ in range(R.choice([0, 0, 0, 1, 1, 2])))
    s = around() + number() + around()
    if R.random() < .2:
        s += R.choice(SPACES) + number()
    return s


def tried(read, s):
    try:
        return read(s)
    except ValueError:
        return None


for _ in range(COUNT):
    s = text()
    f = tried(float, s)
    print(json.dumps([s, s.strip(), s.split(), None if tried(int, s) is None else str(int(s)),
                      None if f is None else struct.pack(">d", f).hex()]))
