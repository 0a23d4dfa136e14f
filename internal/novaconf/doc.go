// Package novaconf reads the scheduler's part of nova.conf: which filters
// and weighers, and their options. It reads as oslo.config does (several files,
// values over several lines, repeated options, deprecated names, $ references) and
// says what of it counts here: what is redundant, what has no effect and why, and
// what cellgate cannot do, which is refused and never left out in silence.
//
// The semantics of the options are those of nova/conf/scheduler.py.
package novaconf
