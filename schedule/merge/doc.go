// Package merge is the gateway's half of the core. A Plan makes the cells' answers into exactly the picks of one
// scheduler over all hosts, and asks each cell for few hosts only.
//
// Why the picks are exact: a host's weight follows from its raw weights, the rules, and the bounds of the raw weights
// over all hosts that passed. Each cell reports its own bounds, and together they are the bounds over all hosts. A plan
// weighs all candidates again under these joined bounds, by the operations of a table (schedule.Scale). So they have
// the weights, and therefore the order, that one scheduler would give them.
//
// Only a host that its cell did not list could still rank before the pick. A cell lists its best hosts, so its other
// hosts rank after its last candidate, by the bounds that the cell ranked by. If those are the joined bounds, as the
// expected ones mostly are, one round is exact. If they are not, the most that an unlisted host can weigh under the
// joined bounds may still prove the pick (answer.below). Otherwise the cell is asked again with the joined bounds.
//
// A pick changes only its own host. So before the next pick only that host's cell is asked again, with the pick, and
// not even that cell if its Forecast has the pick. The other cells are asked again only if the pick moves the joined
// bounds, or hard affinity's group hosts, too far.
//
// Like package schedule, this one is pure: it reads no clock, draws no random number and does no I/O.
package merge
