// Package keystone finds a service of OpenStack by the account and the options that a section of
// nova.conf has for it.
package keystone
