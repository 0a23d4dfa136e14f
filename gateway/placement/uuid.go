package placement

import "strings"

// canonicalUUID gives a uuid in lower case with dashes. It accepts the forms that Placement (oslo's is_uuid_like)
// accepts: without dashes, in braces, after urn:uuid:.
func canonicalUUID(s string) (string, bool) {
	hex := strings.ReplaceAll(s, "urn:", "")
	hex = strings.ReplaceAll(hex, "uuid:", "")
	hex = strings.ToLower(strings.ReplaceAll(strings.Trim(hex, "{}"), "-", ""))
	if len(hex) != 32 || strings.Trim(hex, "0123456789abcdef") != "" {
		return "", false
	}
	return hex[:8] + "-" + hex[8:12] + "-" + hex[12:16] + "-" + hex[16:20] + "-" + hex[20:], true
}
