#!/bin/bash
# boot.sh N [flavor] [option...]: boots N servers and waits for them; boot.sh delete PREFIX deletes them. See lib/boot.py.
. "$(dirname "$0")/env.sh"
exec /usr/bin/python3 "$CODE/lib/boot.py" "$@"
