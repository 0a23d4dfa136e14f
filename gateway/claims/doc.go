// Package claims serves existing claims: confirm, transfer, alternates, release, lists, findings. It finishes moves
// between cells that no caller finished. When a silent cell answers again, it searches that cell for second confirmed
// claims (docs/adr/0005, 0006, 0022).
//
//	I2  one confirmed claim of a consumer over the cells that answer    TestI2_… of package gateway
package claims
