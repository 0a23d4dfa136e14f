// Package claims serves what shows and changes claims once they are made: confirm, transfer, alternates, release,
// findings. It finishes moves between cells that nobody finished. When a silent cell answers again, it searches that
// cell for second confirmed claims (docs/adr/0005, 0006, 0022).
//
//	I2  one confirmed claim of a consumer over the cells that answer    TestI2_… of package gateway
package claims
