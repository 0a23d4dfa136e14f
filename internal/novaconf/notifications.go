package novaconf

import "strings"

// notifications reads which driver sends notifications. Nova sends by every driver that is named;
// cellgate uses only the last driver of a message bus.
func (t *translation) notifications() {
	option := place{notifying, "driver"}
	driver := ""
	for _, a := range t.every(option) {
		switch name := strings.TrimSpace(t.text(a)); name {
		case "messaging", "messagingv2":
			driver = name
			t.From[option.String()] = a.at()
		case "", "noop":
		default:
			t.note(a, a.place.String(), "has no effect here: notifications are sent by messaging and messagingv2, not by "+name)
		}
	}
	format := place{notifications, "notification_format"}
	if f := t.values[format].text; f != "unversioned" && driver != "" {
		t.note(t.set[format], format.String(), "is "+f+": cellgate sends unversioned notifications only")
		if f == "versioned" {
			driver = ""
		}
	}
	t.Values[option.String()] = driver
}
