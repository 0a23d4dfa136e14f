// Package testaddr gives tests addresses of which nobody else can take the port.
package testaddr
