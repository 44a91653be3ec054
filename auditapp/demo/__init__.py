"""The demo data of Assay: small tasks, two scripted agents, real command output, real verifiers, known truth.

`demo.tar.gz` is built by `python -m auditapp.demo.build` and holds

    tasks/<task>/       instruction.md, rubric.json, initial/, reference/ (with checks/ for most), verifier-source/,
                        history/ (the log of the initial repository, for tasks that have one)
    cases/<environment>/<task>/<agent>-<attempt>/
                        case.json, trajectory.json (ATIF 1.7), deliverable/, verifier/

`case.json` names its task by `task_id` and by the relative path `task_dir`. `reference/checks/check.py FOLDER` prints
one line per rubric requirement (`PASS R1 ...`, `FAIL R1 ...: why`, `CANNOT CHECK R1 ...`) and exits 0, 1 or 2; it is
not the verifier. `truth.json` stands beside the archive: one row per case with what is known by construction.
"""
