package novaconf

import (
	"strings"
	"testing"
)

func TestNotifications_DriversAndFormats_TheLastOfABusCounts(t *testing.T) {
	const driver = "[oslo_messaging_notifications] driver"
	for _, tt := range []struct{ text, want, note string }{
		{"[DEFAULT]\n", "", ""},
		{"[oslo_messaging_notifications]\ndriver = noop\n", "", ""},
		{"[oslo_messaging_notifications]\ndriver = messaging\ndriver = messagingv2\ndriver = log\n", "messagingv2", "not by log"},
		{"[oslo_messaging_notifications]\ndriver = messaging\n[notifications]\nnotification_format = both\n", "messaging", "unversioned notifications only"},
		{"[oslo_messaging_notifications]\ndriver = messaging\n[notifications]\nnotification_format = versioned\n", "", "unversioned notifications only"},
		{"[notifications]\nnotification_format = versioned\n", "", ""},
	} {
		s := settings(t, everything(), tt.text)
		notes := s.notesText()
		if s.Values[driver] != tt.want || !strings.Contains(notes, tt.note) || tt.note == "" && notes != "" {
			t.Errorf("%s: %q, notes %q", tt.text, s.Values[driver], notes)
		}
	}
}
