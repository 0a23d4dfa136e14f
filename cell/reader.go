package cell

import "cellgate/internal/wire"

// reader reads what gateways and agents send.
type reader struct{ wire.Fields }
