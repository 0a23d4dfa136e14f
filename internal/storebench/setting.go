package storebench

// How claims come to be.
const (
	// Locks is the product's way: what a scheduler is asked while a transaction is under way
	// goes as the next one, which locks and decides.
	Locks = "locks"
	// LocksSingle is the same with one claim a transaction.
	LocksSingle = "locks-single"
	// Swap reads without locks and swaps the host's generation (Jay Pipes, 2016), in batches.
	Swap = "swap"
	// SwapSingle is that with one claim a transaction.
	SwapSingle = "swap-single"
	// Computes is Nova of 2016: schedulers pick, and the compute host claims, one at a time.
	Computes = "computes"
)

// In which order hosts are picked.
const (
	PackFirst = "pack-first"
	// PackAmong is pack-first as gateways do it: among the first few hosts while claims are
	// refused (ADR 12).
	PackAmong = "pack-among"
	// Spread picks the emptiest host that the scheduler knows.
	Spread = "spread"
	Random = "random"
)

// How schedulers share the hosts.
const (
	Unshared = "none"
	// Modulo: a scheduler picks from its part while that has room.
	Modulo = "modulo"
	// Rendezvous: a scheduler picks from all, and the claim goes to the host's owner, as
	// gateways do.
	Rendezvous = "rendezvous"
)

// The names of each, in the order of help texts.
var (
	Claims     = []string{Locks, LocksSingle, Swap, SwapSingle, Computes}
	Orders     = []string{PackFirst, PackAmong, Spread, Random}
	Partitions = []string{Unshared, Modulo, Rendezvous}
)

// Setting is what a run is with.
type Setting struct {
	Callers    int `json:"callers"`
	Schedulers int `json:"schedulers"`
	Hosts      int `json:"hosts"`
	// Full is how many of the hosts have no room from the beginning.
	Full      int    `json:"full"`
	Order     string `json:"order"`
	Partition string `json:"partition"`
	Claims    string `json:"claim_method"`
}

// Swaps reports whether the setting needs Stores.OpenSwap.
func (s Setting) Swaps() bool { return s.Claims == Swap || s.Claims == SwapSingle }

// Result is what a run came to.
type Result struct {
	Setting
	Seconds   float64 `json:"seconds"`
	Claims    int     `json:"claims"`
	PerSecond float64 `json:"claims_per_second"`
	// Refusals are attempts that found their host full, Conflicts transactions that ran again.
	Refusals  int64 `json:"refusals"`
	Conflicts int64 `json:"conflicts"`
	// OverThree counts claims that took more than three attempts: Nova gives those up.
	OverThree      int64   `json:"claims_after_more_than_3_attempts"`
	PerTransaction float64 `json:"claims_per_transaction"`
	// CPU is the processor time of this process a claim, in µs, with what refusals take.
	CPU float64 `json:"cpu_us_per_claim"`
	// P50 and P99 are a caller's, until its claim is durable somewhere, in ms.
	P50 float64 `json:"p50_ms"`
	P99 float64 `json:"p99_ms"`
	// Wrong counts the hosts that refused a claim that would have fitted, and Problems.
	Wrong int `json:"wrong"`
	// Problems say what is wrong with the rows that the run left.
	Problems []string `json:"problems,omitempty"`
}
