// Package testwait holds the outer bound of waits in tests.
package testwait

import "time"

// Limit is how long a test waits for what must happen before it fails. It only ends a test that
// hangs, so it is long enough for a machine that is ten times slower than a busy one. A test whose
// subject is a deadline has limits of its own, in virtual time where it can.
const Limit = 10 * time.Minute
