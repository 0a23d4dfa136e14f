package rpc

import (
	"testing"

	"cellgate/internal/fault"
)

func TestRefuseRelease_Neighbours_WorkTogether(t *testing.T) {
	defer func(was string) { release = was }(release)
	release = "7"
	for agent, want := range map[string]fault.Kind{
		"cellgate/7 grpc-go/1.76.0":  "",
		"cellgate/6 grpc-go/1.76.0":  "",
		"cellgate/8":                 "",
		"grpc-python/1.60.0":         "",
		"":                           "",
		"cellgate/5 grpc-go/1.76.0":  fault.CellUnavailable,
		"cellgate/9 grpc-go/1.76.0":  fault.CellUnavailable,
		"cellgate/next grpc-go/1.76": fault.InvalidRequest,
	} {
		if got := refuseRelease(agent); (got == nil) != (want == "") || got != nil && fault.KindOf(got) != want {
			t.Errorf("%q: got %v, want %q", agent, got, want)
		}
	}
}
