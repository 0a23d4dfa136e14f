package bus

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseTransportURL_AsNovaWritesIt_IsRead(t *testing.T) {
	yes := true
	for text, want := range map[string]transport{
		"rabbit://":                        {[]broker{{"localhost:5672", "guest", "guest"}}, "/", nil},
		"rabbit://u:p@h1:5673/":            {[]broker{{"h1:5673", "u", "p"}}, "/", nil},
		"rabbit://u:p@h1:5672//":           {[]broker{{"h1:5672", "u", "p"}}, "/", nil},
		"rabbit://u:p%40%2F@h1/nova":       {[]broker{{"h1:5672", "u", "p@/"}}, "nova", nil},
		"rabbit://u:p@h1,v:q@h2:1/x?ssl=1": {[]broker{{"h1:5672", "u", "p"}, {"h2:1", "v", "q"}}, "x", &yes},
		"rabbit://a@b:p@[::1]:5671/%2Fx":   {[]broker{{"[::1]:5671", "a@b", "p"}}, "/x", nil},
		"rabbit://h1":                      {[]broker{{"h1:5672", "guest", "guest"}}, "/", nil},
	} {
		got, err := parseTransportURL(text)
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v %v", text, got, err)
		}
	}
}

func TestParseTransportURL_Wrong_IsRefusedWithoutPassword(t *testing.T) {
	for _, text := range []string{"", "h1", "kafka://u:secret@h1", "rabbit://u:secret@h1:0", "rabbit://u:secret@[::1", "rabbit://u:secret%zz@h", "rabbit://u:secret@h/?ssl=maybe", "rabbit://u:secret@h/%zz"} {
		if _, err := parseTransportURL(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
