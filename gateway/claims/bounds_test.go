package claims

import (
	"fmt"
	"testing"

	"cellgate/gateway/cellclient"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// The claims that wait for a lookup in a cell are bounded.
func TestUnseenClaimsAreBounded(t *testing.T) {
	var u unverifiedClaims
	one, two := &cellclient.Cell{}, &cellclient.Cell{}
	for i := range maxUnseen + 10 {
		u.add(one, &cellgatev1.Claim{ConsumerUuid: fmt.Sprint(i)})
	}
	u.add(two, &cellgatev1.Claim{ConsumerUuid: "1"})
	if begun, _ := u.startLookup(two); begun {
		t.Error("there was room for one more")
	}
	if begun, full := u.startLookup(one); !begun || !full {
		t.Errorf("begun %v, full %v", begun, full)
	}
	if begun, _ := u.startLookup(one); begun {
		t.Error("begun twice")
	}
	n := 0
	for batch := u.removeSome(one, 1000); len(batch) > 0; batch = u.removeSome(one, 1000) {
		n += len(batch)
	}
	if n != maxUnseen {
		t.Errorf("%d taken", n)
	}
	u.finishLookup(one)
	if begun, _ := u.startLookup(one); begun {
		t.Error("nothing is left")
	}
	u.add(two, &cellgatev1.Claim{ConsumerUuid: "1"})
	if begun, full := u.startLookup(two); !begun || full {
		t.Errorf("begun %v, full %v", begun, full)
	}
}

// The requests confirmed last are known, two generations of them at most.
func TestConfirmedRequestsAreBounded(t *testing.T) {
	var r confirmedRequests
	in := &cellclient.Cell{}
	key := func(i int) requestKey { return confirmedKey(fmt.Sprint(i), []byte("f")) }
	for i := range 3 * maxConfirmed {
		r.put(key(i), in)
	}
	if len(r.cellsOf(key(3*maxConfirmed-1))) != 1 || len(r.cellsOf(key(2*maxConfirmed))) != 1 || len(r.cellsOf(key(0))) != 0 {
		t.Error("not the newest are known")
	}
	if len(r.young)+len(r.old) > 2*maxConfirmed {
		t.Errorf("%d and %d are kept", len(r.young), len(r.old))
	}
	r.put(confirmedKey("", nil), in)
	if len(r.cellsOf(confirmedKey("", nil))) != 0 {
		t.Error("a request without an id is known")
	}
}
