package rpc

// uuidLength is how long a uuid is as text.
const uuidLength = 36

// IsUUID reports whether text is 8-4-4-4-12 hexadecimal digits, as the schema's rule
// uuid has it.
func IsUUID(text string) bool {
	if len(text) != uuidLength {
		return false
	}
	for i := range len(text) {
		c := text[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
				return false
			}
		}
	}
	return true
}
