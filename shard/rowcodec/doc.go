// Package rowcodec encodes the rows of a shard as bytes for stores: as protobuf (cellgate.storage.v1), and compressed
// where they are large.
package rowcodec
