package cell

import "cellgate/internal/proposing"

// reader reads what gateways and agents send.
type reader struct{ proposing.Fields }
