package nova

// modelTraits are the standard traits (os-traits) for models in image properties and for disk formats. Nova asks for
// no other trait of these kinds.
var modelTraits = func() map[string]bool {
	traits := map[string]bool{}
	for prefix, values := range map[string][]string{
		"COMPUTE_ARCH": {
			"AARCH64", "MIPSEL", "PPC64LE", "RISCV64", "S390X", "X86_64",
		},
		"COMPUTE_GRAPHICS_MODEL": {
			"BOCHS", "CIRRUS", "GOP", "NONE", "QXL", "VGA", "VIRTIO", "VMVGA", "XEN",
		},
		"COMPUTE_IMAGE_TYPE": {
			"AKI", "AMI", "ARI", "ISO", "PLOOP", "QCOW2", "RAW", "VDI", "VHD", "VHDX", "VMDK",
		},
		"COMPUTE_NET_VIF_MODEL": {
			"E1000", "E1000E", "IGB", "LAN9118", "NE2K_PCI", "NETFRONT", "PCNET", "RTL8139", "SPAPR_VLAN",
			"SRIOV", "VIRTIO", "VMXNET", "VMXNET3",
		},
		"COMPUTE_STORAGE_BUS": {
			"FDC", "IDE", "LXC", "SATA", "SCSI", "UML", "USB", "VIRTIO", "XEN",
		},
		"HW_ARCH": {
			"AARCH64", "ALPHA", "ARMV6", "ARMV7", "ARMV7B", "CRIS", "I686", "IA64", "LM32", "M68K", "MICROBLAZE",
			"MICROBLAZEEL", "MIPS", "MIPS64", "MIPS64EL", "MIPSEL", "OPENRISC", "PARISC", "PARISC64", "PPC",
			"PPC64", "PPC64LE", "PPCEMB", "PPCLE", "S390", "S390X", "SH4", "SH4EB", "SPARC", "SPARC64", "UNICORE32",
			"X86_64", "XTENSA", "XTENSAEB",
		},
	} {
		for _, v := range values {
			traits[prefix+"_"+v] = true
		}
	}
	return traits
}()
