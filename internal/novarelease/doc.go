// Package novarelease has the releases of Nova by name, and what changed in its scheduler with each:
// weighers, default filters, names of options, request filters. The data is that of Nova's repository
// at each release's tag (nova/scheduler, nova/conf/scheduler.py), and not what cellgate does with it.
package novarelease
