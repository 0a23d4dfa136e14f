package systemtest

import (
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// scenario is what a conductor does. run returns the service host of every consumer that holds a
// confirmed claim at the end. Each has exactly one, and no other claim is live then.
type scenario struct {
	name string
	run  func(c *conductor) map[string]string
}

func holders(first int, selected ...*cellgatev1.Selection) map[string]string {
	out := map[string]string{}
	for i, s := range selected {
		out[uuidOf(0x1, first+i)] = s.GetServiceHost()
	}
	return out
}

var scenarios = []scenario{
	{"build three and confirm them", func(c *conductor) map[string]string {
		got := c.selects(request("build", 1, 3))
		for i, s := range got {
			c.confirms(uuidOf(0x1, 1+i), s)
		}
		return holders(1, got...)
	}},
	{"build two and give them up", func(c *conductor) map[string]string {
		got := c.selects(request("build", 1, 2))
		for i, s := range got {
			c.releases(uuidOf(0x1, 1+i), s)
		}
		// Released selections are not repeated by the same request.
		c.asked = nil
		return nil
	}},
	{"build and never confirm", func(c *conductor) map[string]string {
		c.selects(request("build", 1, 2))
		return nil
	}},
	{"build a group of affinity, one leaves", func(c *conductor) map[string]string {
		r := request("build", 1, 2)
		r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: uuidOf(0x6, 1), Policy: "affinity"}
		got := c.selects(r)
		if got[0].GetServiceHost() != got[1].GetServiceHost() {
			c.t.Errorf("the group is on %s and %s", got[0].GetServiceHost(), got[1].GetServiceHost())
		}
		c.confirms(uuidOf(0x1, 1), got[0])
		c.releases(uuidOf(0x1, 2), got[1])
		c.asked = nil
		return holders(1, got[0])
	}},
	{"build a group of anti-affinity", func(c *conductor) map[string]string {
		r := request("build", 1, 3)
		r.GetRequestSpec().InstanceGroup = &cellgatev1.InstanceGroup{Uuid: uuidOf(0x6, 2), Policy: "anti-affinity"}
		got := c.selects(r)
		hosts := map[string]bool{}
		for i, s := range got {
			c.confirms(uuidOf(0x1, 1+i), s)
			hosts[s.GetServiceHost()] = true
		}
		if len(hosts) != 3 {
			c.t.Errorf("the group is on %v", hosts)
		}
		return holders(1, got...)
	}},
}
