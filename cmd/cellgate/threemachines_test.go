package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The guide's commands run as written, with loopback addresses instead of the machines'. Files stay
// where steps 2 to 6 write them. The processes are started directly instead of in steps 1 and 7 to
// 9 (build, copy, start units).
func TestThreeMachines_TheGuidesCommands_MakeThreeCellsBehindThreeGateways(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not installed: the guide's certificates were not made")
	}
	guide := readFile(t, "../../docs/how-to/three-machines.md")
	_, script, _ := strings.Cut(guide, "```sh\n")
	script, _, _ = strings.Cut(script, "\n```")
	steps := regexp.MustCompile(`(?m)^# \d+\. .*\n`).Split(script, -1)[1:]
	if len(steps) != 10 {
		t.Fatalf("the guide has %d commands, want 10", len(steps))
	}
	tools, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(tools, filepath.Join(dir, "deploy")); err != nil {
		t.Fatal(err)
	}
	// The addresses are unique to this process, so that other tests can use the guide's ports.
	net := fmt.Sprintf("127.%d.%d.", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff)
	here := strings.NewReplacer("10.0.0.", net, "metrics: 127.0.0.1:", "metrics: "+net+"$i:", "/etc/cellgate/", filepath.Join(dir, "tls")+"/").Replace
	shell := exec.CommandContext(t.Context(), "bash", "-eu", "-c", here(strings.Join(steps[1:6], "")))
	shell.Dir = dir
	if out, err := shell.CombinedOutput(); err != nil {
		t.Fatalf("steps 2 to 6: %v\n%s", err, out)
	}
	for i := 1; i <= 3; i++ {
		launch(t, true, "cell", "--config", filepath.Join(dir, fmt.Sprintf("cell-cell%d.yaml", i)), "--data", filepath.Join(dir, fmt.Sprint("data", i))).await(`msg="cell is ready"`)
	}
	for i := 1; i <= 3; i++ {
		launch(t, true, "gateway", "--config", filepath.Join(dir, fmt.Sprintf("gateway%d.yaml", i))).await(`msg="gateway starts"`)
	}
	var args []string
	for name, flag := range map[string]string{"CA": "--ca", "CERT": "--cert", "KEY": "--key"} {
		found := regexp.MustCompile(`CELLGATE_` + name + `=(\S+?);?(\s|$)`).FindStringSubmatch(steps[9])
		if found == nil {
			t.Fatalf("step 10 sets no CELLGATE_%s: %s", name, steps[9])
		}
		args = append(args, flag, filepath.Join(dir, found[1]))
	}
	want := regexp.MustCompile(`(?m)^cell1  no hosts  0/0 .*\ncell2  no hosts  0/0 .*\ncell3  no hosts  0/0 `)
	for i := 1; i <= 3; i++ {
		out, stderr, status := typed(t.Context(), "", append([]string{"cells", "--addr", fmt.Sprintf("%s%d:9090", net, i)}, args...)...)
		if status != exitDone || !want.MatchString(out) {
			t.Errorf("gateway %d: status %d\n%s%s", i, status, out, stderr)
		}
	}
}
