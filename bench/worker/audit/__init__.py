"""The probe of `bench audit`: watches somebody's own training from inside its process, which need not know of bench."""
