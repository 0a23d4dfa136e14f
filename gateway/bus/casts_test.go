package bus

import (
	"strings"
	"testing"

	"cellgate/internal/rabbittest"
)

// Computes cast on the bus of their own cell, whose transport_url is in cell_mappings.
func TestCasts_OnTheCellsOwnBus_HaveItsTablesRead(t *testing.T) {
	s := rabbittest.Start(t)
	changed := make(chan string, 16)
	b := run(t, &gateway{answer: hosts("a")}, s.URL(), func(b *Bus) {
		b.cells = []string{"cell1", "cell2"}
		b.url = func(cell string) string {
			if cell == "cell1" {
				return "{scheme}://{username}:{password}@{hostname}:{port}/{path}" // the API's bus
			}
			return strings.Replace(s.URL(), "127.0.0.1", "localhost", 1)
		}
		b.changed = func(cell string) { changed <- cell }
	})
	<-b.first
	if cell := await(t, "read after the connection", changed); cell != "cell2" {
		t.Fatalf("tables of cell %q are read", cell)
	}
	newConductor(t, s).publish(topic+"_fanout", "", recordings(t)["update_instance_info"].body(t))
	// Both buses are this broker's, so each listener gets the cast.
	got := map[string]int{await(t, "first read", changed): 1}
	got[await(t, "second read", changed)]++
	if got[""] != 1 || got["cell2"] != 1 {
		t.Errorf("tables are read: %v", got)
	}
}

func TestFillTransportURL_Template_HasThePartsOfTheOwn(t *testing.T) {
	const own = "rabbit://u:p@h1:5671,v:q@h2:5672/nova?ssl=1"
	for text, want := range map[string]string{
		"rabbit://a:b@c/d": "rabbit://a:b@c/d",
		"{scheme}://{username}:{password}@{hostname}:{port}/cell2?{query}":                                  "rabbit://u:p@h1:5671/cell2?ssl=1",
		"rabbit://{username1}:{password1}@{hostname1}:1,{username2}:{password2}@{hostname2}:{port2}/{path}": "rabbit://u:p@h1:1,v:q@h2:5672/nova",
	} {
		if got, err := fillTransportURL(text, own); err != nil || got != want {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	if _, err := fillTransportURL("rabbit://{username3}:{password3}@h/", own); err == nil || !strings.Contains(err.Error(), "{username3}, {password3}") {
		t.Errorf("a name that the own one does not have: %v", err)
	}
}
