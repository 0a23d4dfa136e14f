// Package keystone finds a service of OpenStack by the account and the options in a section of
// nova.conf.
package keystone
