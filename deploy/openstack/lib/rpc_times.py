"""How long select_destinations takes, seen by the conductor: reads its log (with RPC_LOG=1) from stdin.

oslo.messaging logs a line when a call is sent and one when its reply is received.
"""
import datetime
import re
import sys

CALL = re.compile(r"^(\S+ \S+) .*CALL msg_id: (\w+) exchange '\S*' topic 'scheduler'")
REPLY = re.compile(r'^(\S+ \S+) .*received reply msg_id: (\w+)')


def when(text):
    return datetime.datetime.strptime(text, '%Y-%m-%d %H:%M:%S.%f').timestamp()


sent, took = {}, []
for line in sys.stdin:
    m = CALL.search(line)
    if m:
        at, msg = m.groups()
        sent[msg] = when(at)
        continue
    m = REPLY.search(line)
    if m and m.group(2) in sent:
        took.append(1000 * (when(m.group(1)) - sent.pop(m.group(2))))
took.sort()
if took:
    def q(p):
        return took[min(len(took) - 1, int(len(took) * p))]
    print('select_destinations at the conductor: %d calls, ms min %.0f p50 %.0f p90 %.0f p99 %.0f max %.0f mean %.0f; without a reply: %d' % (
        len(took), took[0], q(.5), q(.9), q(.99), took[-1], sum(took) / len(took), len(sent)))
else:
    print('select_destinations at the conductor: no call in the log (RPC_LOG=1 at up.sh)')
