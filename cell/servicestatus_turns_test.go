package cell

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"cellgate/internal/testlong"
	cellv1 "cellgate/proto/cellgate/cell/v1"
)

// Two gateways that report to two replicas of the cell judge silence by different times, or read copies of
// which one is behind: what they say of a host that is dead is written once, and taken back once it beats.
func TestReplicasTakeNoTurnsAboutADeadHost(t *testing.T) {
	testlong.Only(t, "TestReplicasTakeNoTurnsAboutSilence")
	const down = time.Minute
	for _, more := range []time.Duration{0, 2 * time.Second, 15 * time.Second, 25 * time.Second, 2 * time.Minute} {
		for _, behind := range []time.Duration{0, 5 * time.Second, 20 * time.Second} {
			for slow, after := range map[time.Duration]time.Duration{0: 58 * time.Second, 30 * time.Second: 37 * time.Second} {
				t.Run("+"+more.String()+", behind "+behind.String()+", clock behind "+slow.String(), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						told := map[int]*cellv1.ReportLegacyRequest{}
						fresh, late, s := twoReplicas(t)
						// Both report each 2 s, until done says so; host 2 beats no more after dead.
						tell := func(dead time.Time, done func() bool) (took time.Duration) {
							for began := time.Now(); !done() && time.Since(began) < 4*time.Minute; took = time.Since(began) {
								for i, r := range []*testCell{fresh, late} {
									lag, judges := time.Duration(0), down
									if i == 1 {
										lag, judges = behind, down+more
									}
									req := readCopy(string(rune('a'+i)), lag, time.Time{}, 0, 1, 2)
									row := readCopy("x", lag, dead, 0, 1, 2).GetServices()[2]
									beat := row.GetLastSeen().AsTime()
									row.Up = time.Since(beat) <= judges
									own := timestamppb.New(beat.Add(-slow))
									row.LastSeen, row.ChangedAt = own, own
									req.GetServices()[2] = row
									// What others have beaten, who are dated by the right time.
									req.ReadTo = req.GetServices()[0].GetLastSeen()
									if at := req.GetServices()[1].GetLastSeen(); at.AsTime().After(req.GetReadTo().AsTime()) {
										req.ReadTo = at
									}
									// As a gateway does: while nothing but times changes the rows are told once a minute.
									last := told[i]
									if last != nil && last.GetServices()[2].GetUp() == row.GetUp() && req.GetReadTo().AsTime().Sub(last.GetServices()[0].GetLastSeen().AsTime()) <= time.Minute {
										req.Services, req.Revision = last.GetServices(), last.GetRevision()
									} else {
										told[i] = req
									}
									r.told(req)
									time.Sleep(time.Second)
								}
							}
							return took
						}
						soon := time.Now().Add(after)
						tell(time.Time{}, func() bool { return time.Now().After(soon) })
						before := s.words
						tell(time.Now(), func() bool { return false })
						if n := s.words - before; n != 1 || fresh.outNow() != 1 || late.outNow() != 1 {
							t.Errorf("%d words about a host that is dead, %d and %d are out; want one", n, fresh.outNow(), late.outNow())
						}
						back := tell(time.Time{}, func() bool { return fresh.outNow() == 0 && late.outNow() == 0 })
						if back > 15*time.Second {
							t.Errorf("it is back %v after its first heartbeat", back)
						}
						tell(time.Time{}, func() bool { return false })
						if n := s.words - before; n > 4 || fresh.outNow() != 0 {
							t.Errorf("%d words of one that died and came back, %d are out", n, fresh.outNow())
						}
					})
				})
			}
		}
	}
}
