package rpc

import "github.com/google/uuid"

// IsUUID reports whether text is 8-4-4-4-12 hexadecimal digits, as in the schema's rule uuid.
func IsUUID(text string) bool { return len(text) == 36 && uuid.Validate(text) == nil }
