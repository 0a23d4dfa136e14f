package reconcile

import (
	"fmt"
	"time"
)

const hostA = "aaaaaaaa-0000-4000-8000-000000000001"

func hostUUID(n int) string { return fmt.Sprintf("aaaaaaaa-0000-4000-8000-%012d", n) }

func at(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
