package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"cellgate/gateway/legacy/legacytest"
	"cellgate/internal/testlong"
	"cellgate/internal/testwait"
	cellgatev1 "cellgate/proto/cellgate/v1"
)

// screenshots names the folder into which the browser tests write a picture of each page, light
// and dark; empty for none.
const screenshots = "CELLGATE_SCREENSHOTS"

// browser is a Chromium that shows a console.
type browser struct {
	t   *testing.T
	ctx context.Context
	at  string
	axe string

	mu sync.Mutex
	// complaints are exceptions, and violations of the pages' content security policy.
	complaints []string
}

// needsBrowser gives the Chromium and the axe-core script. It skips the test if either is missing.
func needsBrowser(t *testing.T) (program, axe string) {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not installed: the pages were not looked at in a browser")
	}
	script, err := os.ReadFile("../../console/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Skip("axe-core is not installed (cd console && npm ci): the pages were not checked")
	}
	return program, string(script)
}

// browse starts a Chromium.
func browse(t *testing.T, at string) *browser {
	t.Helper()
	program, axe := needsBrowser(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1400, 1000), chromedp.WSURLReadTimeout(testwait.Limit))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, leave := chromedp.NewContext(alloc)
	t.Cleanup(func() { leave(); stop() })
	b := &browser{t: t, ctx: ctx, at: at, axe: axe}
	chromedp.ListenTarget(ctx, func(ev any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := ev.(type) {
		case *runtime.EventExceptionThrown:
			b.complaints = append(b.complaints, e.ExceptionDetails.Error())
		case *cdplog.EventEntryAdded:
			if e.Entry.Source == cdplog.SourceSecurity || e.Entry.Source == cdplog.SourceJavascript {
				b.complaints = append(b.complaints, e.Entry.Text)
			}
		}
	})
	// The browser ends with the context of the first run.
	if err := chromedp.Run(ctx, cdplog.Enable(), runtime.Enable()); err != nil {
		t.Fatal(err)
	}
	return b
}

// do does actions within testwait.Limit.
func (b *browser) do(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, testwait.Limit)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var text string
		_ = chromedp.Run(b.ctx, chromedp.Text("body", &text, chromedp.ByQuery))
		b.t.Fatalf("%v; the page shows:\n%.2000s", err, text)
	}
}

// open opens a page and waits until it shows a text.
func (b *browser) open(path, text string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(b.at+"/#"+path))
	b.await(text)
}

// await waits until the page shows a text.
func (b *browser) await(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			var shown bool
			err := chromedp.Evaluate(fmt.Sprintf("document.body.innerText.includes(%s)", quoted), &shown).Do(ctx)
			// A document that is being replaced cannot be evaluated.
			if shown || err != nil && !strings.Contains(err.Error(), "context") && !strings.Contains(err.Error(), "null") {
				return err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}))
}

// check requires a page without serious axe-core findings in both themes, and takes screenshots
// once it has loaded.
func (b *browser) check(name string) {
	b.t.Helper()
	b.do(chromedp.Poll(`![...document.querySelectorAll(".empty")].some((e) => e.innerText.startsWith("Reading "))`, nil))
	for _, theme := range []string{"light", "dark"} {
		var found []string
		b.do(
			emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
			chromedp.Evaluate(b.axe+"; 0", nil),
			chromedp.Evaluate(`axe.run().then((r) => r.violations.filter((v) => v.impact === "serious" || v.impact === "critical")
				.map((v) => v.id + " " + v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary).join(" | ")))`,
				&found, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
		)
		for _, f := range found {
			b.t.Errorf("%s, %s: %s", name, theme, f)
		}
		if dir := os.Getenv(screenshots); dir != "" {
			var png []byte
			b.do(chromedp.CaptureScreenshot(&png))
			if err := os.WriteFile(filepath.Join(dir, name+"-"+theme+".png"), png, 0o644); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Errorf("%s: the browser says: %s", name, c)
	}
	b.complaints = nil
}

// A system of two cells, one of 10,000 hosts, which is looked at while the other dies.
func TestConsole_PagesInABrowser_ShowASystemWithADeadCell(t *testing.T) {
	testlong.Only(t, "the console's files and its stream of events (gateway/console)")
	needsBrowser(t)
	var cells []*process
	args := []string{"gateway", "--drain-delay", "0s", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	for i, hosts := range []string{"10000", "20"} {
		name := fmt.Sprintf("cell%d", i+1)
		cell := launch(t, true, "cell", "--name", name, "--uuid", fmt.Sprintf("c0000000-0000-4000-8000-00000000000%d", i+1), "--data", t.TempDir(), "--grpc", "127.0.0.1:0")
		cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
		launch(t, true, "agent", "--cell", name, "--replica", cellAddr, "--hosts", hosts).await(`msg="every host is registered"`)
		cells = append(cells, cell)
		args = append(args, "--cell", name+"="+cellAddr)
	}
	gw := launch(t, true, args...)
	starts := gw.await(`msg="gateway starts".* grpc=(\S+) http=(\S+)`)
	api := starts[1]

	b := browse(t, "http://"+starts[2])
	b.open("/", "Latest decisions")
	b.awaitRates(api)
	cellgate(t, api, exitDone, nil, "select", "--vcpus", "2", "--memory-mb", "2048")
	cellgate(t, api, exitRefused, nil, "select", "--vcpus", "9999")
	pinned := placePinned(t, api)
	b.await("2 of 2")
	b.await("NO_VALID_HOST")
	b.check("overview")

	b.open("/cells/cell1", "10,000 hosts.")
	b.await("Fullest hosts")
	// The facts and the map show the same number of hosts out of service.
	var facts, label string
	b.do(chromedp.Text(`//dt[. = "Out of service"]/following-sibling::dd[1]`, &facts, chromedp.BySearch), chromedp.AttributeValue(`[aria-label^="Heat map"]`, "aria-label", &label, nil, chromedp.ByQuery))
	if n, _, _ := strings.Cut(facts, " "); n == "0" || !strings.Contains(label, " "+n+" out of service") {
		t.Errorf("the facts say %q, the map %q", facts, label)
	}
	b.check("cell")
	b.heatMapMoves()
	b.do(chromedp.KeyEvent("\r"))
	b.await("Inventory")
	b.await("Agent last heard")
	b.check("host")
	b.open("/hosts/"+pinned.host, "NUMA cells and devices")
	b.await(pinned.instance)
	b.await("NUMA cell 0: CPUs ")
	b.do(chromedp.Evaluate(`[...document.querySelectorAll("section")].find((s) => s.innerText.startsWith("NUMA cells")).scrollIntoView(); 0`, nil))
	b.check("host-hardware")

	b.open("/decisions", "Hosts, or why not")
	b.check("decisions")
	b.filterDecisions()
	b.open("/decisions", "Hosts, or why not")
	b.do(chromedp.Click(`//tr[contains(., "NO_VALID_HOST")]//a`, chromedp.BySearch))
	b.await("How the hosts became fewer")
	b.await("What would fit")
	b.check("decision")

	b.open("/try", "It would go to")
	b.check("try")
	b.do(chromedp.SetValue(`.slider input[type="number"]`, "9999", chromedp.ByQuery), chromedp.Evaluate(`document.querySelector('.slider input[type="number"]').dispatchEvent(new Event("input", {bubbles: true})); 0`, nil))
	b.await("No valid host was found")
	b.await("Smallest change of the request")
	b.check("try-refused")
	b.tryWhatIf()

	b.open("/capacity", "What if")
	b.do(chromedp.Click("button.primary", chromedp.ByQuery))
	b.await("more may fit") // of small ones a million fit
	b.await("Why no more of large fit")
	b.check("capacity")
	b.planDrain(api)

	b.open("/upgrade", "No cell is under upgrade")
	b.open("/claims", "Nothing disagrees")
	b.check("claims")
	b.open("/api/SelectDestinations", "grpcurl")
	b.check("api")

	b.open("/", "2 of 2")
	cells[1].stop()
	b.await("1 of 2")
	b.await("not available")
	b.await("of 10,020; cell2 as last known")
	b.await("The numbers are of its last answer")
	b.await("cell2 did not answer: the decisions that it keeps are missing here.")
	b.check("overview-dead-cell")
	b.open("/cells/cell2", "Was in use")
	b.await("last known")
	b.await("CELL_UNAVAILABLE")
	b.check("cell-dead")
	b.open("/decisions", "cell2 did not answer")
}

// awaitRates requests hosts until the overview shows the selections per second and their latency.
func (b *browser) awaitRates(api string) {
	b.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for shown := false; !shown; <-tick.C {
		cellgate(b.t, api, exitDone, nil, "select", "--vcpus", "1", "--dry-run")
		b.do(chromedp.Evaluate(`document.body.innerText.includes("calls a second, median") && document.querySelector(".chart")?.ariaLabel.split("now: ")[1] !== "a second none"`, &shown))
	}
}

// onPinned is an instance whose host reports NUMA cells and devices, and that host's uuid.
type onPinned struct{ instance, host string }

// placePinned places an instance with dedicated CPUs on a host with devices.
func placePinned(t *testing.T, api string) onPinned {
	t.Helper()
	var hosts cellgatev1.ListHostsResponse
	cellgate(t, api, exitDone, &hosts, "hosts", "--cell", "cell1", "--trait", "CUSTOM_GPU_A40", "--limit", "1")
	var placed cellgatev1.SelectDestinationsResponse
	cellgate(t, api, exitDone, &placed, "select", "--vcpus", "4", "--memory-mb", "8192", "--force-host", hosts.GetHosts()[0].GetServiceHost(), "--extra-spec", "hw:cpu_policy=dedicated")
	d := placed.GetDestinations()[0]
	return onPinned{d.GetInstanceUuid(), d.GetSelected().GetComputeNodeUuid()}
}

// choose picks an option of a control, as a user does.
func (b *browser) choose(label, value string) {
	b.t.Helper()
	b.do(chromedp.SetValue(fmt.Sprintf(`//label[contains(., %q)]/select`, label), value, chromedp.BySearch),
		chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll("label")].find((l) => l.textContent.includes(%q)).querySelector("select").dispatchEvent(new Event("change", {bubbles: true})); 0`, label), nil))
}

// filterDecisions lists decisions by how they ended, and by a reason.
func (b *browser) filterDecisions() {
	b.t.Helper()
	rows := func(text string) chromedp.Action {
		return chromedp.Poll(fmt.Sprintf(`((rows) => rows.length > 0 && rows.every((x) => x.innerText === %q))([...document.querySelectorAll("tbody tr td:nth-child(2)")])`, text), nil)
	}
	b.choose("Outcome", "DRY_RUN")
	b.do(rows("dry run"))
	b.choose("Outcome", "REFUSED")
	b.do(rows("NO_VALID_HOST"))
	b.do(chromedp.SendKeys(`//label[contains(., "Reason")]/input`, "VCPU", chromedp.BySearch))
	b.await("hosts by ResourceFilter(VCPU).")
	b.check("decisions-by-reason")
	b.do(chromedp.SendKeys(`//label[contains(., "Trace")]/input`, strings.Repeat("0", 32), chromedp.BySearch))
	b.await("No decisions.")
}

// tryWhatIf asks for several instances of a group on hosts with a trait, and then changes the
// trait, the zone and the policy.
func (b *browser) tryWhatIf() {
	b.t.Helper()
	b.open("/try", "It would go to")
	b.choose("Server group", "anti-affinity")
	b.do(
		chromedp.SendKeys(`//label[contains(., "Required traits")]/input`, "CUSTOM_GPU_A40", chromedp.BySearch),
		chromedp.SendKeys(`//label[contains(., "In aggregates")]/textarea`, "ssd", chromedp.BySearch),
		chromedp.SetValue(`//label[starts-with(., "Instances")]/input`, "3", chromedp.BySearch),
		chromedp.Evaluate(`[...document.querySelectorAll("label")].find((l) => l.textContent.startsWith("Instances")).querySelector("input").dispatchEvent(new Event("input", {bubbles: true})); 0`, nil),
	)
	b.await("All 3 find hosts; the first one would go to")
	b.do(chromedp.Focus(`//button[. = "CUSTOM_GPU_A40"]`, chromedp.BySearch), chromedp.KeyEvent(" "))
	b.await("; as asked ")
	b.choose("the zone were", "=az2")
	b.choose("the group's policy were", "=affinity")
	b.await("AvailabilityZoneFilter") // of the answer to the last change
	b.check("try-what-if")
	b.do(chromedp.Click(`//button[. = "Keep in the form"]`, chromedp.BySearch))
	b.do(chromedp.Poll(`!document.body.innerText.includes("; as asked ")`, nil))
	var zone string
	b.do(chromedp.Value(`//label[contains(., "Availability zone")]/input`, &zone, chromedp.BySearch))
	if zone != "az2" {
		b.t.Errorf("the form has the zone %q", zone)
	}
}

// planDrain plans to empty the host with the most instances.
func (b *browser) planDrain(api string) {
	b.t.Helper()
	var hosts cellgatev1.ListHostsResponse
	cellgate(b.t, api, exitDone, &hosts, "hosts", "--cell", "cell1", "--limit", "1000")
	full := slices.MaxFunc(hosts.GetHosts(), func(a, b *cellgatev1.Host) int { return int(a.GetInstances() - b.GetInstances()) })
	b.do(
		chromedp.SendKeys(`//label[contains(., "Hosts to empty")]/input`, full.GetServiceHost(), chromedp.BySearch),
		chromedp.Click(`//button[contains(., "Plan the drain")]`, chromedp.BySearch),
	)
	b.await("can move")
	b.await(fmt.Sprintf("%s of cell1: %d instances", full.GetServiceHost(), full.GetInstances()))
	b.await("The plan ignores what is not known of the instances")
	b.do(chromedp.ScrollIntoView(`//p[contains(., "The plan ignores")]`, chromedp.BySearch))
	b.check("drain")
}

// heatMapMoves moves over the heat map by keys, and logs how long the frames took.
func (b *browser) heatMapMoves() {
	b.t.Helper()
	var took struct{ Median, Worst float64 }
	b.do(
		chromedp.Focus(".heat canvas", chromedp.ByQuery),
		chromedp.Evaluate(`(async () => {
			const c = document.querySelector(".heat canvas"), took = [];
			for (let i = 0; i < 60; i++) {
				const begin = performance.now();
				c.dispatchEvent(new KeyboardEvent("keydown", { key: i % 2 ? "ArrowRight" : "ArrowDown", bubbles: true }));
				await new Promise(requestAnimationFrame);
				await new Promise(requestAnimationFrame);
				took.push(performance.now() - begin);
			}
			took.sort((a, b) => a - b);
			return { Median: took[30] / 2, Worst: took[59] / 2 };
		})()`, &took, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
	)
	b.t.Logf("10,000 hosts drawn again at each key: a frame took %.1f ms, the worst %.1f ms", took.Median, took.Worst)
	if took.Median > 1000 {
		b.t.Errorf("a frame took %.0f ms", took.Median)
	}
}

// The gates of three cells during an upgrade. Only the first hosts have agents.
func TestConsole_UpgradeUnderWay_ShowsWhatEachGateWaitsFor(t *testing.T) {
	testlong.Only(t, "the console's files and its stream of events (gateway/console)")
	needsBrowser(t)
	u := startUpgrade(t, upgradePlanOf(legacytest.MariaDB))
	ctx, cancel := context.WithCancel(t.Context())
	var beats sync.WaitGroup
	beats.Go(func() { u.beat(ctx) })
	t.Cleanup(func() { cancel(); beats.Wait() })
	u.await("every cell is LEGACY", func(states map[string]*cellgatev1.Gate) bool {
		return len(states) == 3 && count(states, cellgatev1.Gate_LEGACY) == 3
	})
	for i, k := range u.cells[0].order() {
		if i < 3 {
			k.upgrade(u.agents[0])
		}
	}
	text, err := os.ReadFile(u.configs[0])
	if err != nil {
		t.Fatal(err)
	}
	at := regexp.MustCompile(`http: "([^"]+)"`).FindStringSubmatch(string(text))
	b := browse(t, "http://"+at[1])
	b.open("/upgrade", "LEGACY")
	b.await("It waits for")
	b.await("3 of 8 hosts")
	b.await("Hosts behind")
	b.check("upgrade")
}

// A cell falls silent while pages show it, then the gateway.
func TestConsole_CellThenGatewayFallSilent_PagesSayWhatIsOld(t *testing.T) {
	testlong.Only(t, "the console's files and its stream of events (gateway/console)")
	needsBrowser(t)
	var cells []*process
	args := []string{"gateway", "--drain-delay", "0s", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	for i := range 2 {
		name := fmt.Sprintf("cell%d", i+1)
		cell := launch(t, true, "cell", "--name", name, "--uuid", fmt.Sprintf("c0000000-0000-4000-8000-00000000000%d", i+1), "--data", t.TempDir(), "--grpc", "127.0.0.1:0")
		cellAddr := cell.await(`msg="cell starts".* grpc=(\S+)`)[1]
		launch(t, true, "agent", "--cell", name, "--replica", cellAddr, "--hosts", "20").await(`msg="every host is registered"`)
		cells = append(cells, cell)
		args = append(args, "--cell", name+"="+cellAddr)
	}
	starts := launch(t, true, args...).await(`msg="gateway starts".* grpc=(\S+) http=(\S+)`)
	api := starts[1]
	for range 60 {
		cellgate(t, api, exitDone, nil, "select", "--vcpus", "1", "--dry-run")
	}
	var claims cellgatev1.ListClaimsResponse
	cellgate(t, api, exitDone, &claims, "claims", "list", "--cell", "cell2", "--limit", "1")
	host := claims.GetClaims()[0]

	way := &stoppableProxy{to: starts[2]}
	b := browse(t, "http://"+way.listen(t))
	b.open("/cells/%", "This gateway knows no cell")
	b.open("/decisions", "Older")
	b.do(chromedp.Click(`//button[. = "Older"]`, chromedp.BySearch), chromedp.Poll(`document.querySelectorAll("tbody tr").length >= 60`, nil))
	for range 5 { // new decisions do not take their place
		cellgate(t, api, exitDone, nil, "select", "--vcpus", "1", "--dry-run")
	}
	b.do(chromedp.Poll(`document.querySelectorAll("tbody tr").length >= 60`, nil))

	b.open("/hosts/"+host.GetHostUuid(), host.GetConsumerUuid())
	cells[1].stop()
	b.await("CELL_UNAVAILABLE")
	b.await("What is below was read at")
	b.await("cell2 did not answer: its claims are missing here.")
	b.do(chromedp.Poll(`!document.body.innerText.includes("No claims.")`, nil))
	b.open("/claims", "cell2 did not answer: its findings are missing here.")
	b.do(chromedp.Poll(`!document.body.innerText.includes("Nothing disagrees.")`, nil))
	b.open("/capacity", "What if")
	b.do(chromedp.SendKeys(`//label[contains(., "took no more")]/input`, host.GetServiceHost(), chromedp.BySearch), chromedp.Click("button.primary", chromedp.ByQuery))
	b.await(fmt.Sprintf("host %q is not in the cells that answered; these did not: cell2", host.GetServiceHost()))

	b.open("/", "1 of 2")
	way.stopped.Lock()
	b.await("The gateway does not answer. What is shown is from before.")
	way.stopped.Unlock()
	b.do(chromedp.Poll(`!document.body.innerText.includes("The gateway does not answer.")`, nil))

	// Two days later the times have dates.
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := cdppage.AddScriptToEvaluateOnNewDocument(`{ const D = Date; Date = class extends D {
			constructor(...at) { super(...(at.length ? at : [Date.now()])); }
			static now() { return D.now() + 2 * 864e5; } } }`).Do(ctx)
		return err
	}))
	b.open("/decisions", "Older")
	b.do(chromedp.Poll(`[...document.querySelectorAll("tbody tr td:first-child")].every((x) => / \d{4}, \d\d:\d\d:\d\d$/.test(x.innerText))`, nil))
}

// stoppableProxy forwards connections, and nothing while it is stopped: no byte, no end.
type stoppableProxy struct {
	to      string
	stopped sync.RWMutex
}

func (p *stoppableProxy) listen(t *testing.T) string {
	l := listen(t)
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", p.to)
			if err != nil {
				_ = in.Close()
				continue
			}
			go p.forward(in, out)
			go p.forward(out, in)
		}
	}()
	return l.Addr().String()
}

func (p *stoppableProxy) forward(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		p.stopped.RLock()
		if n > 0 && err == nil {
			_, err = to.Write(buf[:n])
		}
		p.stopped.RUnlock()
		if err != nil {
			return
		}
	}
}
