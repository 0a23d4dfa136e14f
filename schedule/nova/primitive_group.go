package nova

import (
	"slices"
	"strconv"

	"cellgate/internal/python"
	"cellgate/schedule"
)

// instanceGroup reads the InstanceGroup. It has policy since version 1.11; before, policies had the one policy.
func (s *Spec) instanceGroup(spec *object) {
	o := spec.child("instance_group", "InstanceGroup")
	if o == nil {
		return
	}
	s.Group = &Group{
		UUID:    o.text("uuid"),
		Policy:  o.text("policy"),
		Members: o.texts("members"),
		Hosts:   o.texts("hosts"),
	}
	s.Group.policy(o)
	s.Group.rules(o)
	o.known("id", "name", "project_id", "user_id", "metadetails",
		"created_at", "updated_at", "deleted_at", "deleted")
	o.rest()
}

func (g *Group) policy(o *object) {
	policies := o.texts("policies")
	if g.Policy == "" && len(policies) > 0 {
		// If policy is present but empty, Nova reads policies only for hard affinity. Before 1.11 they are the
		// group's policies.
		if _, newer := o.data["policy"]; newer && o.options.Strict && !slices.Contains(policies, string(schedule.Affinity)) {
			return
		}
		g.Policy = policies[0]
	}
	for _, p := range policies {
		if p != g.Policy {
			o.invalid(o.at("policies"), "not supported: a group has one policy, %q, but %q is named too",
				shorten(g.Policy), shorten(p))
			return
		}
	}
}

// rules reads _rules, whose values are strings of digits (DictOfStringsField).
func (g *Group) rules(o *object) {
	for _, field := range []string{"_rules", "rules"} {
		rules := o.dict(field)
		for _, name := range sortedKeys(rules) {
			path, v := at(o.at(field), name), rules[name]
			if name != "max_server_per_host" {
				o.invalid(path, "not supported: max_server_per_host is the one rule known")
				continue
			}
			n, problem := integer(v)
			if text, ok := v.(string); ok {
				if n, ok = python.Int(text); ok {
					problem = ""
				} else {
					problem = "must be an integer, not " + strconv.Quote(shorten(text))
				}
			}
			if problem == "" && n < 1 {
				problem = "must be at least 1"
			}
			if problem == "" {
				problem = amountProblem(n)
			}
			if problem != "" {
				o.invalid(path, "%s", problem)
				continue
			}
			g.MaxPerHost = n
		}
	}
}
