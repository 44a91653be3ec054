raise NotImplementedError("total is not written yet")
