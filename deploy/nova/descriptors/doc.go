// Command descriptors writes the schema that the conductor plug-in carries: a
// FileDescriptorSet of the public API and of the details of its errors, without
// the options, so that Python needs nothing but the protobuf runtime to use it.
//
//	go run ./deploy/nova/descriptors > deploy/nova/cellgate_nova/schema.binpb
package main
