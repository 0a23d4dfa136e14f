// Package novaconf reads the scheduler's part of nova.conf: the filters, the weighers, and their
// options. It parses files as oslo.config does (several files, values over several lines, repeated
// options, deprecated names, $ references). It reports which settings are redundant, and which have no
// effect and why. It refuses a setting that cellgate cannot follow, and never ignores one silently.
//
// The semantics of the options are those of nova/conf/scheduler.py.
package novaconf
