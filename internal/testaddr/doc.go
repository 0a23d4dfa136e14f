// Package testaddr gives tests addresses whose port no other process can take.
package testaddr
