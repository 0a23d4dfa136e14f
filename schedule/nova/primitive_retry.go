package nova

import (
	"fmt"

	"cellgate/schedule"
)

// retry reads SchedulerRetries: the compute nodes that were already tried. Only RetryFilter of older releases reads
// them.
func (s *Spec) retry(spec *object) {
	o := spec.child("retry", "SchedulerRetries")
	nodes := o.child("hosts", "ComputeNodeList")
	for i, e := range nodes.list("objects") {
		node := spec.object(fmt.Sprintf("%s[%d]", nodes.at("objects"), i), e, "ComputeNode")
		if node == nil {
			continue
		}
		s.Retry = append(s.Retry, schedule.RetryHost{Host: node.text("host"), Node: node.text("hypervisor_hostname")})
	}
}
