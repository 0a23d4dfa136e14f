// Package rowcodec is how stores keep the rows of a shard as bytes: as protobuf
// (cellgate.storage.v1), and packed where they are large.
package rowcodec
