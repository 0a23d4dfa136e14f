// Package testwait holds the outer bound of waits in tests.
package testwait

import "time"

// Limit is how long a test waits for an event before it fails. It only ends hanging tests, so it is
// long enough for a machine that is ten times slower than a busy one. A test about a deadline has its
// own limits, in virtual time if possible.
const Limit = 10 * time.Minute
