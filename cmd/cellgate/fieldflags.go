package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"cellgate/internal/fault"
)

// flagOfField names, for a field of requests, the flags or the arguments that fill it.
var flagOfField = map[string][]string{
	"host_uuid": {"host", "HOST"}, "hosts": {"HOST"}, "consumer_uuid": {"instance", "INSTANCE", "CONSUMER"}, "instance_uuid": {"instance"},
	"instance_uuids": {"instance"}, "claim_id": {"CLAIM"}, "to_consumer": {"TO"}, "decision_id": {"decision", "DECISION"}, "cell": {"cell", "CELL"},
	"namespace": {"NAMESPACE"}, "project_id": {"project"}, "user_id": {"user"}, "request_id": {"request-id"}, "reason": {"reason"},
	"name_contains": {"name"}, "host_cell": {"host-cell"}, "availability_zone": {"zone"}, "required_traits": {"trait"}, "trait": {"trait"},
	"forbidden_traits": {"forbid-trait"}, "member_of": {"aggregate"}, "forbidden_aggregates": {"forbid-aggregate"}, "resources": {"resource"},
	"vcpus": {"vcpus"}, "memory_mb": {"memory-mb"}, "root_gb": {"disk-gb"}, "ignore_hosts": {"ignore-host"}, "force_hosts": {"force-host"},
	"force_nodes": {"force-node"}, "host": {"host"}, "instance_group": {"group"}, "policy": {"policy"}, "extra_specs": {"extra-spec"},
	"properties": {"image-property"}, "scheduler_hints": {"hint"}, "strategy": {"strategy"}, "filter_expression": {"filter-expression"},
	"weigh_expression": {"weigh-expression"}, "weigh_multiplier": {"weigh-multiplier"}, "claim_ttl": {"ttl"}, "max_alternates": {"alternates"},
	"drained_hosts": {"drain"}, "added_hosts": {"add"}, "ratios": {"ratio"}, "max_instances": {"max"}, "specs": {"specs"}, "lasts": {"for"}, "until": {"until"},
	"database": {"database"}, "api": {"api-database"}, "cell_uuid": {"cell-uuid"}, "since": {"since"}, "if_generation": {"if-generation"},
}

// uuidHelp says where to find the uuid of an object that cellgate knows no name of.
var uuidHelp = map[string]string{
	"consumer_uuid": instanceHelp, "instance_uuid": instanceHelp, "instance_uuids": instanceHelp, "to_consumer": instanceHelp,
	"instance_group": `cellgate does not know names of server groups: "openstack server group show -f value -c id NAME" gives the uuid of one`,
}

const instanceHelp = `cellgate does not know names of instances: "openstack server show -f value -c id NAME" gives the uuid of one`

// withoutIndex matches the keys and indexes in a path of fields.
var withoutIndex = regexp.MustCompile(`\[[^\]]*\]`)

// fieldKey matches the key that ends the path of a map's entry: extra_specs["hw:numa_nodes"].
var fieldKey = regexp.MustCompile(`\["([^"]+)"\]$`)

// flagged reports the wrong fields of a request by the command's flags and arguments. It keeps the
// names of the fields when the request comes from a file.
func flagged(cmd *cobra.Command, err error) error {
	var e *fault.Error
	if !errors.As(err, &e) || len(e.Fields) == 0 || cmd.Flags().Changed("file") {
		return err
	}
	fields := slices.Clone(e.Fields)
	for i, f := range fields {
		names := strings.Split(withoutIndex.ReplaceAllString(f.Path, ""), ".")
		slices.Reverse(names)
		for _, name := range names {
			if help := uuidHelp[name]; help != "" && strings.HasSuffix(f.Problem, "is not a uuid") {
				fields[i].Problem += "; " + help
			}
			if flag := fillerOf(cmd, name); flag != "" {
				if key := fieldKey.FindStringSubmatch(f.Path); key != nil && !strings.Contains(f.Problem, key[1]) {
					flag += " " + key[1]
				}
				fields[i].Path = flag
				break
			}
		}
	}
	return fault.InvalidFields(fields)
}

// fillerOf gives the flag or argument of a command that fills a field; empty for none.
func fillerOf(cmd *cobra.Command, field string) string {
	for _, name := range flagOfField[field] {
		if cmd.Flags().Lookup(name) != nil {
			return "--" + name
		}
		for _, argument := range strings.Fields(cmd.Use)[1:] {
			if strings.Trim(argument, "[].") == name {
				return name
			}
		}
	}
	return ""
}
