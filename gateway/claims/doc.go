// Package claims serves what shows and changes claims once they are made: confirm, transfer, alternates, release,
// findings. It finishes moves between cells that nobody finished, and looks again for second confirmed claims when a
// cell answers that did not (docs/adr/0005, 0006, 0022).
//
//	I2  one confirmed claim of a consumer over the cells that answer    TestI2_… of package gateway
package claims
