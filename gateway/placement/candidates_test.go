package placement

func naiveCandidates(all []*Provider, q CandidateQuery) *Candidates { return &Candidates{} }
