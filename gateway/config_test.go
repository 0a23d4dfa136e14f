package gateway

import (
	"strings"
	"testing"

	"google.golang.org/grpc"

	"cellgate/gateway/cellclient"
	"cellgate/gateway/rules"
	"cellgate/internal/rpc"
)

func lazy(target string) (*grpc.ClientConn, error) { return rpc.Dial("passthrough:///" + target) }

func TestConfigReportsEveryProblem(t *testing.T) {
	_, err := New(Config{
		Cells: []cellclient.CellConfig{
			{Name: "", UUID: "x", Replicas: []string{"a"}},
			{Name: "cell2", UUID: testUUID(0xc, 1)},
			{Name: "cell3", UUID: testUUID(0xc, 1), Replicas: []string{"a"}},
		},
		Config:      rules.Config{Filters: []string{"NoFilter"}},
		MaxInFlight: -1,
	}, Deps{Dial: lazy})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"cells[0].name", "cells[0].uuid", "cells[1].replicas", "cells[2]", "NoFilter", "max_in_flight",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
	if _, err := New(Config{}, Deps{Dial: lazy}); err == nil || !strings.Contains(err.Error(), "cells") {
		t.Errorf("no cells: %v", err)
	}
}
