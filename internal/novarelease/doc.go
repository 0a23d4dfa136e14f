// Package novarelease has the releases of Nova by name, and what of its scheduler came
// or went with which: weighers, default filters, names of options, request filters. It
// is data of Nova's repository (nova/scheduler, nova/conf/scheduler.py at each release's
// tag), not what cellgate does by it.
package novarelease
