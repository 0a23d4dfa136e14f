"""Draws cases that real clouds do not have but Nova answers: each is one of the
bundled ones, made smaller and bent by one to three of the functions below.

usage: bend_cases.py GOLDEN.jsonl.gz COUNT SEED"""
import copy
import gzip
import json
import random
import sys

with gzip.open(sys.argv[1], "rt") as f:
    base = [json.loads(line) for line in f]
COUNT, SEED = int(sys.argv[2]), int(sys.argv[3])
R = random.Random(SEED)
pick = R.choice

NUMS = ["0", "1", "5", "5.0", "-1", "1e3", "1_000", "inf", "-inf", "nan", "0x10", "", " 7 ", "7.", ".5",
    "+3", "-0", "1e400", "9223372036854775808", "١٢", "5,6", "0.1", "1_0", "1__0", "_1", "1_", "1_0.2_5",
    "1_0e1_0", "\x1c7", "8\x1f", "\x1d9\x1e", "\xa05", "5\x85", "\u30003", "\ufeff4", "\u200b6", "\x1f١"]
WORDS = ["gold", "silver", "true", "True", "None", "none", "x86_64", "QEMU", "a", "é", "'", "it's", "[]",
    "{}", "null", "<in>", "<or>", "nova"]
OPS = ["=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<all-in>", "<or>",
    ">", "<", "=>", "in", "s=", "", "<OR>", "S=="]


def opvalue():
    op, r = pick(OPS), R.random()
    v = pick(NUMS + WORDS)
    if op == "<or>":
        n = R.randint(0, 4)
        parts = []
        for _ in range(n):
            parts += ["<or>", pick(NUMS + WORDS)]
        if r < .15:
            parts = parts[1:]
        if r > .85:
            parts.append("<or>")
        if .5 < r < .55:
            parts = [p for p in parts if p != "<or>"]
            parts.insert(0, "<or>")
        return " ".join(parts)
    if op == "<all-in>":
        return " ".join(["<all-in>"] + [pick(WORDS + ["6", "x", "_", "aes", "vmx", "avx"])
            for _ in range(R.randint(0, 3))])
    if r < .08:
        return op + v
    if r < .12:
        return "  " + op + "\t" + v + " "
    if r < .2:
        return "%s %s %s" % (op, v, pick(NUMS + WORDS + ["<or>"]))
    if r < .24:
        return op
    return ("%s %s" % (op, v)).strip() if r < .9 else v


ATTRS = ["host", "nodename", "uuid", "cell_uuid", "total_usable_ram_mb", "total_usable_disk_gb",
    "disk_mb_used",
         "free_ram_mb", "free_disk_mb", "vcpus_total", "vcpus_used", "num_instances", "num_io_ops", "failed_builds",
         "host_ip", "hypervisor_type", "hypervisor_version", "hypervisor_hostname", "cpu_info", "supported_instances",
         "limits", "ram_allocation_ratio", "cpu_allocation_ratio", "disk_allocation_ratio", "stats",
         "num_vm_active", "num_task_None", "io_workload", "zz", "", "rack"]
CPU = ["arch", "model", "vendor", "topology", "topology:cores", "topology:sockets", "features", "nope",
    "topology:nope",
       "topology:cores:x", "maxphysaddr", "maxphysaddr:bits", "features:0", "", ":"]


def capkey():
    r = R.random()
    if r < .4:
        return "capabilities:" + pick(ATTRS)
    if r < .65:
        return "capabilities:cpu_info:" + pick(CPU)
    if r < .75:
        return "capabilities:" + pick(["stats:num_vm_active", "stats:nope", "service:host",
            "service:disabled", "service:zz",
                                        "host:x", "free_ram_mb:x", "limits:x", "extra:deep", "extra:deep:er", "extra:list", "list:0", "instances:x"])
    if r < .95:
        return pick(ATTRS)
    return pick(["capabilities", "capabilities:", "Capabilities:host", "capability:host",
        "CAPABILITIES:host"])


def jsonvalue():
    if R.random() < .15:
        return pick([2**53 + 1, 2.0**53, 2**63, 2**64, 2**64 + 1, 2.0**64, -2**64, float("inf"), float("-inf"),
            float("nan"), {"a": float("nan")}, {"a": 2**64}])
    return pick([0, 1, -1, 5, 2.0, 1.5, 1e20, 12345678901234567890, True, False, None, "", "gold", "QEMU",
        "x86_64", "5", [], {}, "$", "$.", "$nope",
                 {"a": 1}, 100000, 0.0, "kvm"])


def query(depth=0):
    r = R.random()
    ops = ["=", "<", ">", "in", "<=", ">=", "not", "or", "and"]
    if depth == 0 and r < .12:
        return pick([[], {}, "", 0, None, "x", ["~", 1], [["=", 1, 1]], ["="], ["not"], ["or"], ["and"],
            ["in"], [1, 2], [None], [{}], {"a": 1}, True, 5, "=", "not1"])
    args = []
    for _ in range(R.randint(0, 4)):
        q = R.random()
        if q < .4:
            a = "$" + pick(ATTRS + ["service.disabled", "service.host", "stats.num_vm_active",
                "cpu_info.arch", "service.nope.x", "limits.x", "instances", "stats.extra",
                "pci_stats"])
            args.append(a)
        elif q < .6 and depth < 3:
            args.append(query(depth + 1))
        else:
            args.append(jsonvalue())
    return [pick(ops)] + args


def querytext():
    r = R.random()
    q = json.dumps(query())
    if r < .03:
        return pick(["[", "nope", "[1,]", "NaN", "Infinity", "[\"=\", NaN, NaN]", "[\"<\", 1, Infinity]",
            " ", "[\"=\",1,1] x", "'x'", "[\"=\", 01, 1]", "\u00a0[]", "[\"=\", \"\t\", 1]"])
    return q


def data(o):
    return o["nova_object.data"]


def spec(c):
    return data(c["request_spec"])


def flavor(c):
    return data(spec(c)["flavor"])


def props(c):
    im = spec(c)["image"]
    if im is None:
        return None
    return data(data(im)["properties"])


def m_caps(c):
    es = flavor(c)["extra_specs"]
    if R.random() < .5:
        for k in list(es):
            if not k.startswith("hw:"):
                del es[k]
    for _ in range(R.randint(1, 3)):
        es[capkey()] = smart(c)


def smart(c):
    """An operator with an operand some host's attribute may equal."""
    if R.random() < .55:
        return opvalue()
    n = pick(c["compute_nodes"])
    col = pick(["host", "hypervisor_hostname", "vcpus", "vcpus_used", "memory_mb", "free_ram_mb",
        "local_gb", "hypervisor_type", "hypervisor_version", "cpu_allocation_ratio", "host_ip"])
    v = n.get(col)
    op = pick(["=", "==", "!=", ">=", "<=", "s==", "s!=", "s<", "s<=", "s>", "s>=", "<in>", "<or>", ""])
    v = str(v)
    if R.random() < .2:
        v = v[1:-1]
    return ("%s %s" % (op, v)).strip()


def m_aggspecs(c):
    es = flavor(c)["extra_specs"]
    for k in list(es):
        if not k.startswith(("hw:", "aggregate")):
            del es[k]
    for _ in range(R.randint(1, 2)):
        k = pick(["tier", "ssd", "cpu_gen", "a:b", "", "instance_type", "availability_zone"])
        es[("aggregate_instance_extra_specs:" if R.random() < .8 else "") + k] = opvalue()
    c["aggregates"] = c["aggregates"] or newaggs(c)
    for a in c["aggregates"]:
        for k in ("tier", "ssd", "cpu_gen", "a:b", ""):
            if R.random() < .5:
                a["metadata"][k] = mdvalue()


def mdvalue():
    r = R.random()
    vs = [pick(NUMS + WORDS + ["new", "5", "6", "gold", "silver"]) for _ in range(pick([1, 1, 1, 2, 3]))]
    return pick([",", ", ", " , ", ",\x1c", "\x1f,\x1d"]).join(vs) + ("," if r < .05 else "")


def newaggs(c):
    hosts = sorted({n["host"] for n in c["compute_nodes"]})
    out = []
    for i in range(R.randint(1, 4)):
        out.append({"uuid": "00000a66-0000-4000-8000-%012x" % (R.getrandbits(40)), "name": "x%d" % i,
                    "hosts": sorted(R.sample(hosts, R.randint(0, len(hosts)))), "metadata": {}})
    return out


MULT = ["ram", "cpu", "disk", "io_ops", "metrics", "pci", "soft_affinity", "soft_anti_affinity",
    "build_failure", "cross_cell_move"]


def m_metadata(c):
    if not c["aggregates"] or R.random() < .3:
        c["aggregates"] = c["aggregates"] + newaggs(c)
    for a in c["aggregates"]:
        for k in [m + "_weight_multiplier" for m in R.sample(MULT, R.randint(0, 4))]:
            a["metadata"][k] = pick([n for n in NUMS if "inf" not in n and n not in ("nan",
                "1e400")] + ["abc", "0", "-2.5", "1.5", "1e-3"])
        for k in ("max_io_ops_per_host", "max_instances_per_host"):
            if R.random() < .4:
                a["metadata"][k] = pick(NUMS + ["3", "10", "40"])


def m_aggother(c):
    if not c["aggregates"] or R.random() < .3:
        c["aggregates"] = c["aggregates"] + newaggs(c)
    names = [flavor(c)["name"], flavor(c)["name"].upper(), "m1.small", "", " "]
    for a in c["aggregates"]:
        if R.random() < .5:
            a["metadata"]["instance_type"] = pick([",", ", "]).join(pick(names)
                for _ in range(R.randint(1, 3)))
        if R.random() < .4:
            a["metadata"]["filter_tenant_id"] = pick([",", " ,"]).join(pick([spec(c)["project_id"] or "x",
                "", "other", "OTHER"]) for _ in range(R.randint(1, 3)))
        if R.random() < .2:
            a["metadata"]["filter_tenant_id2"] = pick([spec(c)["project_id"] or "y", "other"])
        if R.random() < .4:
            a["metadata"]["availability_zone"] = pick(["az1", "az1,az2", " az1", "nova", "", "AZ1",
                "az1 ", "az-default"])
    if R.random() < .6:
        spec(c)["availability_zone"] = pick(["az1", "az2", "nova", "", "AZ1", " az1", "az1,az2", None,
            "none"])
    if R.random() < .2:
        flavor(c)["name"] = pick(["a,b", " m1.small ", "", "m1.small"])
    if R.random() < .3:
        spec(c)["project_id"] = pick(["other", None, "OTHER"])
    if R.random() < .3:
        c["config"]["DEFAULT"]["default_availability_zone"] = pick(["nova", "", "az1", "none"])


IMG = {"os_distro": ["ubuntu", "debian", "windows", "", "5"], "os_type": ["linux", "windows"],
    "hw_cpu_cores": [0, 1, 2, 4], "hw_qemu_guest_agent": [True, False],
       "hw_vif_model": ["virtio", "e1000"], "hw_disk_bus": ["virtio", "scsi"], "hw_machine_type": ["pc",
           "q35", ""],
       "hw_boot_menu": [True, False], "hw_video_ram": [0, 64], "img_version": [1,
           0], "os_require_quiesce": [True, False],
       "img_block_device_mapping": [[], ], "hw_watchdog_action": ["none", "reset"], "os_version": ["1",
           "8.0"], "hw_min_ram": [],
       "hw_pmu": [True, False], "img_hide_hypervisor_id": [True,
           False], "hw_vif_multiqueue_enabled": [True, False],
       "img_owner_id": ["abc", ""], "hw_rescue_bus": ["virtio"], "img_use_agent": [True, False],
       "hw_serial_port_count": [0, 1], "os_command_line": ["x y", "a,b"], "hw_scsi_model": ["virtio-scsi",
           "buslogic"], "img_signature": ["ab", "cd"],
       "img_root_device_name": ["/dev/vda"], "hw_time_hpet": [True], "hw_emulation_architecture": ["x86_64", "aarch64"]}
IMG = {k: v for k, v in IMG.items() if v}


def image(c):
    if spec(c)["image"] is None:
        b = pick([x for x in base if spec(x)["image"]])
        spec(c)["image"] = copy.deepcopy(spec(b)["image"])
    return props(c)


def m_imageagg(c):
    p = image(c)
    if not c["aggregates"] or R.random() < .3:
        c["aggregates"] = c["aggregates"] + newaggs(c)
    keys = R.sample(sorted(IMG), R.randint(1, 4))
    for k in keys:
        if R.random() < .85:
            p[k] = pick(IMG[k])
    ns = pick(["", "", "", "isolation", "hw_", "os", "hw"])
    sep = pick([".", "", "_", ":"])
    c["config"].pop("aggregate_image_properties_isolation_namespace", None)
    c["config"].pop("aggregate_image_properties_isolation_separator", None)
    if ns:
        c["config"]["aggregate_image_properties_isolation_namespace"] = ns
        c["config"]["aggregate_image_properties_isolation_separator"] = sep
    for a in c["aggregates"]:
        for k in keys + ["not_an_image_property", "os_foo", "hw_foo"]:
            if R.random() < .4:
                vals = [str(pick(IMG.get(k, ["x"]))) for _ in range(R.randint(1, 3))]
                if R.random() < .2:
                    vals = [v.lower() for v in vals]
                a["metadata"][(ns + sep if ns and R.random() < .4 else "") + k] = ",".join(vals)


VERS = [">=1.0", "<2.0", "==6.2.0", "!=5.2", ">=1.0,<7", ">1", "1.0", "", " >= 5.0 ", ">=5.0 , <8.1",
    ">= 5.0.0a1", "<6.2b3", ">=5.0,", "=5.0", "~=5.0", ">5.0.0.0", ">=5.x",
        "<=6.2.0,!=6.2.0", ">= 2.12.0", "<1000.0", ">=05.0", ">1.2.3", "==1.2.3", "<=7.0", "=>1.0", "> =1.0", "!=", ">=1.2,>=1.3,>=1.4", ">=1.0.0.dev1", ">=1 .0"]


def m_image(c):
    p = image(c)
    for k in ("hw_architecture", "img_hv_type", "hw_vm_mode", "img_hv_requested_version"):
        p.pop(k, None)
    if R.random() < .5:
        p["hw_architecture"] = pick(["x86_64", "i686", "aarch64", "ppc64le", "ppc64", "amd64", "X86_64",
            "i386", "x86_32"])
    if R.random() < .5:
        p["img_hv_type"] = pick(["qemu", "kvm", "xen", "vmware", "QEMU", "hyperv", "lxc", "xapi",
            "ironic", "baremetal"])
    if R.random() < .4:
        p["hw_vm_mode"] = pick(["hvm", "xen", "uml", "exe", "pv", "hv", "HVM", "baremetal"])
    if R.random() < .6:
        p["img_hv_requested_version"] = pick(VERS)
    if R.random() < .25:
        c["config"]["image_properties_default_architecture"] = pick(["x86_64", "aarch64", "i686", "amd64"])
    for n in c["compute_nodes"]:
        if R.random() < .15:
            n["hypervisor_version"] = pick([0, 1, 999, 1000, 1000000, 6002000, 5002003, 2012000, 10000000,
                7000, 8001002, 1000000000, 12345678901])
        if R.random() < .15:
            n["supported_instances"] = pick(["[]", "[[\"x86_64\", \"kvm\", \"hvm\"]]",
                "[[\"i386\", \"QEMU\", \"HVM\"], [\"x86_64\", \"kvm\", \"hvm\"]]",
                                             "[[\"amd64\", \"xapi\", \"pv\"]]", "[[\"x86_64\", \"baremetal\", \"baremetal\"]]", "[[\"aarch64\", \"kvm\", \"hvm\"], [\"armv7l\", \"kvm\", \"hvm\"]]"])


def m_host_hints(c):
    h = spec(c)["scheduler_hints"]
    insts = [i["uuid"] for i in c["instances"]] + ["11111111-1111-4111-8111-111111111111"]
    for k in ("same_host", "different_host"):
        if R.random() < .7:
            v = [pick(insts) for _ in range(R.randint(0, 5))]
            r = R.random()
            if r < .1:
                v = [""]
            elif r < .2:
                v.append("")
            elif r < .3:
                v = [x.upper() for x in v]
            elif r < .35:
                v = [x.replace("-", "") for x in v]
            elif r < .4:
                v.append(" " + pick(insts))
            elif r < .45:
                v = ["nope"] + v
            h[k] = v


def m_cidr(c):
    h = spec(c)["scheduler_hints"]
    ips = [n.get("host_ip") for n in c["compute_nodes"] if n.get("host_ip")] or ["10.0.0.1"]
    ip = pick(ips + ["10.0.0.1", "10.1", "10", "10.1.2", "10.1.2.3.4", "::1", "2001:db8::1",
        "::ffff:10.1.2.3", "10.1.2.3/16", "", "nope", "10.1.2.256", "010.1.2.3", "0x0a.1.2.3",
        " 10.1.2.3", "10.1.2.3 ",
                     "167772161", "fe80::1%eth0", "10.0.0.", "10..0.1", "127.1"])
    h["build_near_host_ip"] = pick([[ip]] * 8 + [[], [""], [ip, ip]])
    r = R.random()
    if r < .85:
        h["cidr"] = [pick(["/24", "/16", "/8", "/0", "/32", "/33", "/99", "/64", "/128", "24", "", "/",
            "/255.255.0.0", "/0.0.255.255", "/255.0.255.0", "/-1", "/+8", "/ 16", "/16 ", "//16", "/1_6",
            "/x", "/016", "/8.0",
                           "/0.0.0.0", "/255.255.255.255", "/::", "/ffff::", "/٨", "/ffff:ffff::"])]
    elif r < .9:
        h["cidr"] = ["/24", "/16"]
    for n in c["compute_nodes"]:
        if R.random() < .1:
            n["host_ip"] = pick(["10.1.2.3", "::ffff:10.1.2.9", "2001:db8::7", "10.0.0.9", None,
                "127.0.0.1", "0.0.0.0", "::1", "010.0.0.1"])


def m_query(c):
    spec(c)["scheduler_hints"]["query"] = pick([[querytext()]] * 12 + [[], [""], [querytext(),
        querytext()]])


def m_check(c):
    spec(c)["scheduler_hints"]["_nova_check_type"] = pick([["rebuild"], ["rebuild", "x"], ["REBUILD"],
        [""], [], ["other"]])


def m_stats(c):
    for n in c["compute_nodes"]:
        if R.random() < .5:
            try:
                s = json.loads(n["stats"])
            except Exception:
                s = {}
            if not isinstance(s, dict):
                s = {}
            for _ in range(R.randint(1, 4)):
                k = pick(["num_instances", "io_workload", "failed_builds", "num_vm_active", "rack",
                    "extra", "list", "zz", "host", "free_ram_mb", "", "cpu_info", "tier", "numa_topology"])
                if k in ("num_instances", "io_workload", "failed_builds"):
                    v = pick(["3", 4, "0", " 5 ", "-2", 2.0, 2.9, True, "60", "12", "7"] + (["x", None,
                        "2.5", "", "1e3"] if R.random() < .08 else []))
                else:
                    v = pick([1, "1", 2.5, True, False, None, "", "gold", "{\"deep\": {\"er\": 5}}",
                        "{\"list\": [1, 2]}", "[1]", 1e16, 1e-5, 12345678901234567890, "{\"deep\": NaN}",
                        "5", "6", "nan",
                              "{\"deep\": 1, \"deep\": 2}", "{\"deep\": \"x\"}", "\"deep\"", "null", "{\"deep\": null}", "{'deep': 1}"])
                s[k] = v
            n["stats"] = json.dumps(s)
    if R.random() < .7:
        es = flavor(c)["extra_specs"]
        for _ in range(R.randint(1, 2)):
            es[pick(["capabilities:extra:deep", "capabilities:extra:deep:er", "capabilities:rack",
                "capabilities:zz", "zz", "rack", "capabilities:extra", "capabilities:list",
                "capabilities:stats:zz", "capabilities:host", "capabilities:tier", "tier",
                "capabilities:"])] = opvalue()


def m_cpuinfo(c):
    for n in c["compute_nodes"]:
        if R.random() < .5:
            n["cpu_info"] = pick(["", "x", "[]", "{}", "5", "\"x\"", json.dumps({"arch": pick(["x86_64",
                5, None, True, 1.0, ["a"], {"a": 1}, "é", "a'b", "\n", "é\u2028"]),
                "topology": pick([{"cores": pick([4, "4", 4.0, None, True, [1, 2]])}, 5, None, "x",
                "{\"cores\": 8}", []]),
                                  "features": pick([["aes", "vmx"], ["it's", "a\"b"], [1, 2.0, True,
                                      None], {"aes": True, "x": None}, "aes", [], [[1], {"a": []}],
                                      ["x\\y"], [1e22, 1e-7, 123456789.123]]),
                                  "maxphysaddr": pick([{"bits": 46}, {"bits": "46"}, 46,
                                      None])}), "{\"arch\": NaN}", "{\"arch\": 1e400}",
                                      " {\"arch\": \"x86_64\"} ", "{\"arch\": \"x86_64\",}"])
    es = flavor(c)["extra_specs"]
    for _ in range(R.randint(1, 2)):
        es["capabilities:cpu_info" + pick(["", ":", ":arch", ":topology", ":topology:cores", ":features",
            ":maxphysaddr:bits", ":arch:a"])] = pick([opvalue(), smart(c), "== 4", ">= 46", "<in> aes",
            "s== None", "<in> None", "<in> 1", "<in> [", "None", "True", "4", "4.0", "nan", "<in> \"",
            "s> a", "<in> 1e"])


METRICS = ["cpu.user.percent", "cpu.kernel.percent", "cpu.idle.percent", "cpu.iowait.percent",
    "cpu.percent", "cpu.frequency", "cpu.user.time", "cpu.kernel.time", "cpu.idle.time",
    "cpu.iowait.time", "numa.membw.max", "numa.membw.current"]


def m_metrics(c):
    for n in c["compute_nodes"]:
        if R.random() < .6:
            ms = []
            for name in R.sample(METRICS, R.randint(0, 8)):
                v = pick([0, 1, 5, 100, -3, 0.5, 0.29, 0.57, 1.005, -0.3, 12345.678, "7", True] + (["x",
                    None, "0.5", 1e30, [1], {}] if R.random() < .03 else []))
                m = {"name": name, "value": v, "timestamp": "2026-11-20T11:59:30", "source": "s"}
                if name.startswith("numa"):
                    m = {"name": name, "numa_membw_values": {"0": 10, "1": 43},
                        "timestamp": "2026-11-20T11:59:30", "source": "s"}
                    if R.random() < .4:
                        m["value"] = 5
                ms.append(m)
            if R.random() < .1 and ms:
                ms.append(dict(pick(ms)))
            if R.random() < .02:
                ms.append({"name": "cpu.nope", "value": 1, "timestamp": "2026-11-20T11:59:30",
                    "source": "s"})
            n["metrics"] = pick([json.dumps(ms)] * 10 + [None, "", "[]", "null"])
    mc = c["config"]["metrics"]
    mc["weight_setting"] = [pick(METRICS + ["nope", " cpu.percent", ""]) + pick(["=1", "=1.0", "=-2.5",
        "=0", "", "=x", "=1=2", "= 3", "=1e2", "=", "=0.1"]) for _ in range(R.randint(0, 4))]
    mc["required"] = R.random() < .3
    mc["weight_multiplier"] = pick([1.0, 0.0, -1.0, 2.5, 1.5])
    mc["weight_of_unavailable"] = pick([-10000.0, 0.0, 50.0, -1e9, 0.1])
    if R.random() < .5:
        for a in c["aggregates"]:
            if R.random() < .5:
                a["metadata"]["metrics_weight_multiplier"] = pick(["0", "2", "-1", "x", "0.0"])


def m_rows(c):
    for n in c["compute_nodes"]:
        if R.random() < .4:
            k = pick(["free_ram_mb", "free_disk_gb", "disk_available_least", "vcpus", "vcpus_used",
                "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio", "memory_mb",
                "local_gb"])
            if "ratio" in k:
                n[k] = pick([None, 0.0, 0.5, 1.0, 16.0, 0.1, 1e-9, -1.0, 1000.0])
            elif k == "disk_available_least":
                n[k] = pick([None, -5, 0, 10, 100000])
            elif k == "free_disk_gb" and R.random() < .2:
                n[k] = None
            else:
                n[k] = pick([0, -1, -5000, 1, 100, 100000, 10000000])
    if R.random() < .3:
        c["config"]["DEFAULT"]["cpu_allocation_ratio"] = pick([0.0, 2.0, 0.5])
    if R.random() < .3:
        c["config"]["DEFAULT"]["initial_cpu_allocation_ratio"] = pick([2.0, 0.5, 0.0])
        c["config"]["DEFAULT"]["initial_disk_allocation_ratio"] = pick([2.0, 0.5])


def m_services(c):
    for s in c["services"]:
        if R.random() < .4:
            k = pick(["disabled", "forced_down", "last_seen_up", "created_at", "both", "deleted"])
            if k in ("disabled", "forced_down"):
                s[k] = R.random() < .5
            elif k == "deleted":
                s[k] = pick([0, 0, 0, 17])
            elif k == "both":
                s["last_seen_up"] = None
                s["created_at"] = pick(["2026-11-20T11:59:30", "2026-11-20T11:50:30"])
            else:
                s[k] = pick(["2026-11-20T11:59:00", "2026-11-20T11:58:59", "2026-11-20T12:01:00",
                    "2026-11-20T12:01:01", "2026-11-20T12:00:59", "2026-11-20T11:59:01"])
    c["config"]["DEFAULT"]["service_down_time"] = pick([60, 60, 30, 120, 59])


def m_config(c):
    g = c["config"]
    for m in ("ram", "cpu", "disk", "io_ops"):
        if R.random() < .5:
            g[m + "_weight_multiplier"] = pick([0.0, 1.0, -1.0, 2.5, 1e-6, 1e6, 1.0, 0.1])
    for m in ("pci", "soft_affinity", "soft_anti_affinity"):
        if R.random() < .5:
            g[m + "_weight_multiplier"] = pick([0.0, 1.0, 2.5, 1e6])
    for m in ("build_failure", "cross_cell_move"):
        if R.random() < .5:
            g[m + "_weight_multiplier"] = pick([0.0, 1.0, -1.0, 1e6, 2.5])
    if R.random() < .4:
        g["max_io_ops_per_host"] = pick([1, 2, 8, 100])
        g["max_instances_per_host"] = pick([1, 5, 20, 100])
    hosts = [n["host"] for n in c["compute_nodes"]]
    im = spec(c)["image"]
    if R.random() < .5:
        g["isolated_hosts"] = [pick(hosts + ["", hosts[0].upper()]) for _ in range(R.randint(0, 4))]
        g["isolated_images"] = [pick(["x", "", ((data(im).get("id") or "z") if im else "y"),
            ((data(im).get("id") or "z") if im else "y")]) for _ in range(R.randint(0, 2))]
        g["restrict_isolated_hosts_to_isolated_images"] = R.random() < .5
    fs = ["AggregateImagePropertiesIsolation", "AggregateInstanceExtraSpecsFilter",
        "AggregateIoOpsFilter", "AggregateMultiTenancyIsolation", "AggregateNumInstancesFilter",
        "AggregateTypeAffinityFilter", "AllHostsFilter", "AvailabilityZoneFilter",
        "ComputeCapabilitiesFilter", "ComputeFilter", "DifferentHostFilter", "ImagePropertiesFilter",
        "IoOpsFilter", "IsolatedHostsFilter", "JsonFilter", "MetricsFilter", "NUMATopologyFilter",
        "NumInstancesFilter", "PciPassthroughFilter", "SameHostFilter", "ServerGroupAffinityFilter",
        "ServerGroupAntiAffinityFilter", "SimpleCIDRAffinityFilter"]
    if R.random() < .5:
        g["enabled_filters"] = R.sample(fs, R.randint(0, 6))
        if R.random() < .1 and g["enabled_filters"]:
            g["enabled_filters"].append(g["enabled_filters"][0])
    if R.random() < .3:
        R.shuffle(g["weighers"])


def m_spec(c):
    s = spec(c)
    hosts = [n["host"] for n in c["compute_nodes"]]
    nodes = [n["hypervisor_hostname"] for n in c["compute_nodes"]]
    r = R.random()
    if r < .3:
        s["ignore_hosts"] = [pick(hosts + [hosts[0].upper(), "gone"]) for _ in range(R.randint(0, 3))]
    elif r < .5:
        s["force_hosts"] = [pick(hosts + [hosts[0].upper(), "gone"]) for _ in range(R.randint(0, 2))]
        if R.random() < .4:
            s["ignore_hosts"] = [pick(hosts)]
    elif r < .65:
        s["force_nodes"] = [pick(nodes + [nodes[0].upper()]) for _ in range(R.randint(0, 2))]
    elif r < .9:
        d = {"host": pick(hosts + [hosts[0].upper()])}
        d["node"] = pick([None, None, pick(nodes)])
        d["cell"] = None
        d["aggregates"] = None
        d["allow_cross_cell_move"] = False
        d["forbidden_aggregates"] = None
        s["requested_destination"] = {"nova_object.name": "Destination", "nova_object.namespace": "nova",
            "nova_object.version": "1.4", "nova_object.data": d}


def m_group(c):
    s = spec(c)
    insts = [i["uuid"] for i in c["instances"]]
    hosts = [n["host"] for n in c["compute_nodes"]]
    if s["instance_group"] is None:
        b = pick([x for x in base if spec(x)["instance_group"]])
        s["instance_group"] = copy.deepcopy(spec(b)["instance_group"])
    g = data(s["instance_group"])
    p = pick(["affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity", "legacy", None])
    g["policy"] = p
    g["policies"] = [p] if p else []
    g["members"] = [pick(insts + [s["instance_uuid"] or insts[0] if insts else "",
        "99999999-0000-4000-8000-000000000099"]) for _ in range(R.randint(0, 12))] if insts else []
    # As the conductor fills it in, and a host or two that do not exist.
    g["hosts"] = sorted({i["host"] for i in c["instances"] if i["uuid"] in g["members"] and not i["deleted"]} | set(R.sample(["gone", hosts[0].upper()], pick([0, 0, 0, 1, 2])))) 
    g["_rules"] = pick([{}, {}, {"max_server_per_host": pick(["1", "2", "3", "5"])},
        {"max_server_per_host": "10"}]) if p == "anti-affinity" else {}
    if insts and R.random() < .2:
        s["instance_uuid"] = pick(insts)


def m_cells(c):
    if len(c["cells"]) == 1:
        c["cells"].append({"uuid": "00000ce1-0000-4000-8000-0000000000ff", "name": "c2",
            "disabled": R.random() < .2})
    hosts = {}
    for n in c["compute_nodes"]:
        hosts.setdefault(n["host"], pick(c["cells"])["uuid"])
        n["cell_uuid"] = hosts[n["host"]]
    for k in ("services", "instances"):
        for row in c[k]:
            if row["host"] in hosts:
                row["cell_uuid"] = hosts[row["host"]]
    cell = pick(c["cells"] + [{"uuid": "00000ce1-0000-4000-8000-0000000000aa",
        "name": "c3"}] * (R.random() < .05))
    if R.random() < .8:
        d = {"host": None, "node": None, "aggregates": None, "forbidden_aggregates": None,
            "allow_cross_cell_move": R.random() < .7,
             "cell": {"nova_object.name": "CellMapping", "nova_object.namespace": "nova",
                 "nova_object.version": "1.1", "nova_object.data": {"uuid": cell["uuid"],
                 "name": cell["name"], "transport_url": "x", "database_connection": "y",
                 "disabled": False}}}
        del d["host"]
        del d["node"]
        spec(c)["requested_destination"] = {"nova_object.name": "Destination",
            "nova_object.namespace": "nova", "nova_object.version": "1.4", "nova_object.data": d}


def m_image_none(c):
    spec(c)["image"] = None


def m_multi(c):
    n = R.randint(2, 7)
    c["instance_uuids"] = ["77777777-0000-4000-8000-%012x" % R.getrandbits(40) for _ in range(n)]
    spec(c)["instance_uuid"] = c["instance_uuids"][0]
    spec(c)["num_instances"] = n


BENDS = [m_caps] * 4 + [m_aggspecs] * 3 + [m_metadata] * 2 + [m_aggother] * 2 + [m_imageagg] * 2 + [m_image] * 3 + [m_host_hints] * 2 + [m_cidr] * 3 + [m_query] * 5 + [m_check] + [m_stats] * 3 + [m_cpuinfo] * 3 + [m_metrics] * 3 + [m_rows] * 3 + [m_services] + [m_config] * 3 + [m_spec] + [m_group] * 3 + [m_cells] * 2 + [m_image_none] + [m_multi] * 2

NUMERIC = ("=", "==", "!=", ">=", "<=")


def isfloat(s):
    try:
        float(s)
        return True
    except ValueError:
        return False


def ambiguous(c):
    """Nova compares several values of an aggregate key in the order of a hash, and
    may raise on one before it comes to another that matches."""
    for key, req in flavor(c)["extra_specs"].items():
        words = req.split()
        if not words or words[0] not in NUMERIC:
            continue
        scope, _, rest = key.partition(":")
        key = rest if scope == "aggregate_instance_extra_specs" else key
        for host in {n["host"] for n in c["compute_nodes"]}:
            values = {v.strip() for a in c["aggregates"] if host in a["hosts"]
                      for v in a["metadata"].get(key, "").split(",") if key in a["metadata"]}
            if len(values) > 1 and not all(isfloat(v) for v in values):
                return True
    return False


def small(c):
    """Keeps few hosts, and of rows what says something."""
    R.shuffle(c["compute_nodes"])
    c["compute_nodes"] = c["compute_nodes"][:R.randint(3, 6)]
    kept = {n["host"] for n in c["compute_nodes"]}
    for key in ("services", "instances"):
        c[key] = [s for s in c[key] if s["host"] in kept]
    for a in c["aggregates"]:
        a["hosts"] = [h for h in a["hosts"] if h in kept or h.startswith("gone")]
    for n in c["compute_nodes"]:
        for key in ("running_vms", "current_workload", "updated_at", "deleted_at"):
            n.pop(key, None)
    for s in c["services"]:
        for key in ("report_count", "uuid", "updated_at", "deleted_at", "topic"):
            s.pop(key, None)
    c.pop("server_groups", None)
    for key in ("security_groups", "limits"):
        spec(c).pop(key, None)


def bent(i):
    c = copy.deepcopy(pick([b for b in base if b["compute_nodes"]]))
    c.pop("expected", None)
    c["config"].pop("weight_classes", None)
    c["config"].update(host_subset_size=1, shuffle_best_same_weighed_hosts=False)
    small(c)
    c["focus"] = []
    for bend in R.sample(BENDS, R.randint(1, 3)):
        bend(c)
        c["focus"].append(bend.__name__[2:])
    # The conductor names the hosts of all members that live, also of those that a bend brings among the candidates. cellgate
    # finds members itself (docs/reference/nova-parity.md, differences on purpose).
    if group := spec(c)["instance_group"]:
        g = data(group)
        g["hosts"] = sorted(set(g["hosts"] or []) | {i["host"] for i in c["instances"] if i["uuid"] in (g["members"] or []) and not i["deleted"]})
    c["id"] = "bent-%d-%05d" % (SEED, i)
    return c


drawn = 0
while drawn < COUNT:
    case = bent(drawn)
    if not ambiguous(case):
        drawn += 1
        print(json.dumps(case, separators=(",", ":")))
