"""Independent verification of training plans in a grid."""
