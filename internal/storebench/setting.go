package storebench

// How claims are made.
const (
	// Locks is cellgate's way: operations that arrive during a transaction form the next one, which
	// locks rows and decides.
	Locks = "locks"
	// LocksSingle is Locks with one claim a transaction.
	LocksSingle = "locks-single"
	// Swap reads without locks and swaps the host's generation (Jay Pipes, 2016), in batches.
	Swap = "swap"
	// SwapSingle is Swap with one claim a transaction.
	SwapSingle = "swap-single"
	// Computes is Nova of 2016: schedulers pick, and the compute host claims, one claim at a time.
	Computes = "computes"
)

// The order in which hosts are picked.
const (
	PackFirst = "pack-first"
	// PackAmong is PackFirst as gateways do it: they pick among the first few hosts while claims are
	// refused (ADR 12).
	PackAmong = "pack-among"
	// Spread picks the host with the most room that the scheduler knows of.
	Spread = "spread"
	Random = "random"
)

// How schedulers share the hosts.
const (
	Unshared = "none"
	// Modulo: a scheduler picks from its part while the part has room.
	Modulo = "modulo"
	// Rendezvous: a scheduler picks from all hosts, and the host's owner makes the claim, as with
	// gateways.
	Rendezvous = "rendezvous"
)

// The names of each kind, in the order of help texts.
var (
	Claims     = []string{Locks, LocksSingle, Swap, SwapSingle, Computes}
	Orders     = []string{PackFirst, PackAmong, Spread, Random}
	Partitions = []string{Unshared, Modulo, Rendezvous}
)

// Setting is the configuration of a run.
type Setting struct {
	Callers    int `json:"callers"`
	Schedulers int `json:"schedulers"`
	Hosts      int `json:"hosts"`
	// Full is how many of the hosts are full from the beginning.
	Full      int    `json:"full"`
	Order     string `json:"order"`
	Partition string `json:"partition"`
	Claims    string `json:"claim_method"`
}

// Swaps reports whether the setting needs Stores.OpenSwap.
func (s Setting) Swaps() bool { return s.Claims == Swap || s.Claims == SwapSingle }

// Result is the result of a run.
type Result struct {
	Setting
	Seconds   float64 `json:"seconds"`
	Claims    int     `json:"claims"`
	PerSecond float64 `json:"claims_per_second"`
	// Refusals are attempts that found their host full; Conflicts are transactions that ran again.
	Refusals  int64 `json:"refusals"`
	Conflicts int64 `json:"conflicts"`
	// OverThree counts claims that needed more than three attempts, which Nova gives up.
	OverThree      int64   `json:"claims_after_more_than_3_attempts"`
	PerTransaction float64 `json:"claims_per_transaction"`
	// CPU is this process's processor time for each claim, in µs, including refusals.
	CPU float64 `json:"cpu_us_per_claim"`
	// P50 and P99 are a caller's latency until its claim is durable on some host, in ms.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Wrong counts the hosts that refused a claim that would have fitted, plus Problems.
	Wrong int `json:"wrong"`
	// Problems say what is wrong with the resulting rows.
	Problems []string `json:"problems,omitempty"`
}
