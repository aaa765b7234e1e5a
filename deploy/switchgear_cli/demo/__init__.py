"""Demo traffic: a believable small agent fleet on the real SDK. Every event says that it is a demo's."""
