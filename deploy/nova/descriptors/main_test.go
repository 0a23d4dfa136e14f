package main

import (
	"bytes"
	"os"
	"testing"
)

func TestPluginCarriesTheSchemaAsItIs(t *testing.T) {
	want, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../cellgate_nova/schema.binpb")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("deploy/nova/cellgate_nova/schema.binpb is stale: make gen")
	}
}
