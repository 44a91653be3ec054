"""Archives from strangers: what is kept, what is left out with a reason, and that a failure leaves nothing behind."""

import gzip
import io
import os
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from auditapp.importers.archives import ArchiveLimits, UnpackReport, archive_kind, unpack

Build = Callable[[Path], None]


def tar_bytes(*entries: tuple[str, bytes] | tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
                continue
            info = tarfile.TarInfo(entry[0])
            info.size = len(entry[1])
            archive.addfile(info, io.BytesIO(entry[1]))
    return buffer.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zip_bytes(*entries: tuple[str, bytes], mode: int = 0o100644) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = mode << 16
            archive.writestr(info, body)
    return buffer.getvalue()


def unpacked(tmp_path: Path, raw: bytes, limits: ArchiveLimits | None = None) -> UnpackReport:
    source = tmp_path / "upload.bin"
    source.write_bytes(raw)
    return unpack(source, tmp_path / "out", limits or ArchiveLimits())


def reasons(report: UnpackReport) -> dict[str, str]:
    return {line.path: line.reason for line in report.refused}


def on_disk(report: UnpackReport) -> dict[str, bytes]:
    root = report.folder
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


FILES = (("job/trial/result.json", b"{}"), ("job/trial/agent/log.txt", b"a\n" * 3000), ("empty", b""))
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tar.zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_tar_files_come_out_as_they_went_in(tmp_path: Path, kind: str) -> None:
    report = unpacked(tmp_path, PACKERS[kind](tar_bytes(*FILES)))
    assert archive_kind(tmp_path / "upload.bin") == kind
    assert report.failure is None
    assert on_disk(report) == dict(FILES)
    assert (report.files, report.size) == (3, 6002)


def test_zip_files_come_out_as_they_went_in(tmp_path: Path) -> None:
    report = unpacked(tmp_path, zip_bytes(*FILES))
    assert report.failure is None
    assert on_disk(report) == dict(FILES)


def test_a_tar_of_the_current_folder_has_nothing_left_out(tmp_path: Path) -> None:
    root = special("./", tarfile.DIRTYPE)
    report = unpacked(tmp_path, tar_bytes(root, ("./a/b.txt", b"x")))
    assert on_disk(report) == {"a/b.txt": b"x"}
    assert report.refused == ()


def test_the_executable_bit_is_kept(tmp_path: Path) -> None:
    report = unpacked(tmp_path, zip_bytes(("run.sh", b"true"), mode=0o100755))
    assert (report.folder / "run.sh").stat().st_mode & stat.S_IXUSR


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../evil", "leads out"),
        ("a/../../evil", "leads out"),
        ("/etc/evil", "absolute"),
        ("C:\\evil", "absolute"),
        ("..\\evil", "leads out"),
        ("x" * 300, "too long"),
        ("d/" * 70 + "f", "too deep"),
    ],
)
def test_names_that_lead_elsewhere_are_left_out_with_a_reason(tmp_path: Path, name: str, words: str) -> None:
    for number, raw in enumerate((tar_bytes((name, b"evil"), ("ok", b"1")), zip_bytes((name, b"evil"), ("ok", b"1")))):
        place = tmp_path / str(number)
        place.mkdir()
        report = unpacked(place, raw)
        assert on_disk(report) == {"ok": b"1"}
        assert words in next(iter(reasons(report).values()))
        assert sorted(path.name for path in place.iterdir()) == ["out", "upload.bin"]
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (tarfile.SYMTYPE, "symbolic link"),
        (tarfile.LNKTYPE, "hard link"),
        (tarfile.CHRTYPE, "device"),
        (tarfile.BLKTYPE, "device"),
        (tarfile.FIFOTYPE, "FIFO"),
    ],
)
def test_links_and_special_members_of_a_tar_are_left_out(tmp_path: Path, kind: bytes, words: str) -> None:
    report = unpacked(tmp_path, tar_bytes(special("bad", kind, "/etc/passwd"), ("bad/through", b"1"), ("ok", b"1")))
    assert words in reasons(report)["bad"]
    assert on_disk(report) == {"bad/through": b"1", "ok": b"1"}
    assert not (report.folder / "bad").is_symlink()


@pytest.mark.parametrize(("mode", "words"), [(0o120777, "symbolic link"), (0o010644, "special")])
def test_links_and_special_members_of_a_zip_are_left_out(tmp_path: Path, mode: int, words: str) -> None:
    buffer = io.BytesIO(zip_bytes(("ok", b"1")))
    with zipfile.ZipFile(buffer, "a") as archive:
        info = zipfile.ZipInfo("bad")
        info.external_attr = mode << 16
        archive.writestr(info, "/etc/passwd")
    report = unpacked(tmp_path, buffer.getvalue())
    assert words in reasons(report)["bad"]
    assert on_disk(report) == {"ok": b"1"}


def test_a_nul_in_a_name_is_left_out(tmp_path: Path) -> None:
    raw = zip_bytes(("good.txtXevil", b"1"), ("ok", b"1")).replace(b"good.txtXevil", b"good.txt\0evil")
    report = unpacked(tmp_path, raw)
    assert reasons(report) == {"good.txt\\x00evil": "left out: its name has a NUL"}
    assert on_disk(report) == {"ok": b"1"}


def test_a_name_that_is_not_utf8_is_left_out(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="latin-1") as archive:
        archive.addfile(tarfile.TarInfo("caf\xe9"))
        archive.addfile(tarfile.TarInfo("ok"))
    report = unpacked(tmp_path, buffer.getvalue())
    assert list(reasons(report).values()) == ["left out: its name is not UTF-8"]
    assert on_disk(report) == {"ok": b""}


def test_of_two_members_with_one_name_the_first_stays(tmp_path: Path) -> None:
    report = unpacked(tmp_path, tar_bytes(("reward.txt", b"1"), ("reward.txt", b"0"), ("reward.txt/x", b"0")))
    assert on_disk(report) == {"reward.txt": b"1"}
    assert [line.path for line in report.refused] == ["reward.txt", "reward.txt/x"]


def test_archives_inside_stay_packed_and_are_named(tmp_path: Path) -> None:
    report = unpacked(tmp_path, zip_bytes(("inner.zip", zip_bytes(("x", b"1"))), ("a.TGZ", b"")))
    assert report.nested == ("inner.zip", "a.TGZ")
    assert on_disk(report)["inner.zip"].startswith(b"PK")


def assert_nothing_left(report: UnpackReport, words: str) -> None:
    assert report.failure is not None
    assert words in report.failure.reason
    assert not report.folder.exists()


@pytest.mark.parametrize("pack", [PACKERS["tar.gz"], PACKERS["tar.zst"], lambda raw: zip_bytes(("z", raw))])
def test_a_bomb_is_stopped_by_its_ratio(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    raw = pack(tar_bytes(("z", bytes(50_000_000))))
    limits = ArchiveLimits(free_bytes=1_000_000, ratio=100)
    assert_nothing_left(unpacked(tmp_path, raw, limits), "100 times its own size")


def test_a_bomb_is_stopped_by_its_total(tmp_path: Path) -> None:
    raw = zip_bytes(*((f"{n}", os.urandom(1000)) for n in range(20)))
    assert_nothing_left(unpacked(tmp_path, raw, ArchiveLimits(total_bytes=10_000)), "more than the 10,000 bytes")


def test_members_are_counted_before_they_are_held_in_memory(tmp_path: Path) -> None:
    raw = zip_bytes(*((f"{n}", b"") for n in range(30)))
    lying = bytearray(raw)
    lying[-14:-10] = struct.pack("<HH", 1, 1)
    for number, data in enumerate((raw, bytes(lying), tar_bytes(*((f"{n}", b"") for n in range(30))))):
        place = tmp_path / str(number)
        place.mkdir()
        assert_nothing_left(unpacked(place, data, ArchiveLimits(members=20)), "more than the 20 members")


def test_folders_that_names_imply_count_as_members(tmp_path: Path) -> None:
    raw = tar_bytes(*((f"{n}/" * 30 + "f", b"") for n in range(10)))
    assert_nothing_left(unpacked(tmp_path, raw, ArchiveLimits(members=100)), "more than the 100 members")


def test_one_file_over_the_limit_is_left_out_and_the_rest_kept(tmp_path: Path) -> None:
    for number, pack in enumerate((tar_bytes, zip_bytes)):
        place = tmp_path / str(number)
        place.mkdir()
        report = unpacked(place, pack(("big", os.urandom(5000)), ("ok", b"1")), ArchiveLimits(member_bytes=4000))
        assert on_disk(report) == {"ok": b"1"}
        assert "5,000 bytes" in reasons(report)["big"]


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("keep", [0.3, 0.9, 0.97])
def test_a_truncated_tar_says_so(tmp_path: Path, kind: str, keep: float) -> None:
    raw = tar_bytes(*((f"f{n}", os.urandom(3000)) for n in range(40)))[: 40 * 3584 + 1024]
    packed = PACKERS[kind](raw)
    assert_nothing_left(unpacked(tmp_path, packed[: int(len(packed) * keep)]), "truncated")


def test_a_tar_cut_between_two_members_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    assert_nothing_left(unpacked(tmp_path, tar_bytes(("a", b"1"), ("b", b"2"))[:1024]), "truncated")


def test_a_tar_with_a_broken_header_in_the_middle_says_so(tmp_path: Path) -> None:
    raw = bytearray(tar_bytes(("a", b"1"), ("b", b"2"), ("c", b"3")))
    raw[1024 + 100 : 1024 + 160] = b"\xff" * 60
    assert_nothing_left(unpacked(tmp_path, bytes(raw)), "damaged")


def test_a_truncated_zip_says_so(tmp_path: Path) -> None:
    raw = zip_bytes(*((f"f{n}", os.urandom(3000)) for n in range(10)))
    assert_nothing_left(unpacked(tmp_path, raw[:-100]), "truncated")


def test_a_zip_member_with_wrong_bytes_fails_the_archive(tmp_path: Path) -> None:
    raw = bytearray(zip_bytes(("a", os.urandom(3000))))
    raw[1500] ^= 0xFF
    assert_nothing_left(unpacked(tmp_path, bytes(raw)), "damaged")


def test_an_encrypted_zip_says_so(tmp_path: Path) -> None:
    raw = bytearray(zip_bytes(("secret", b"1")))
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + offset] |= 1
    assert_nothing_left(unpacked(tmp_path, bytes(raw)), "encrypted")


def test_a_method_that_cannot_be_unpacked_in_pieces_is_left_out(tmp_path: Path) -> None:
    buffer = io.BytesIO(zip_bytes(("ok", b"1")))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_LZMA) as archive:
        archive.writestr("bad", bytes(100_000))
    report = unpacked(tmp_path, buffer.getvalue())
    assert "method 14" in reasons(report)["bad"]
    assert on_disk(report) == {"ok": b"1"}


@pytest.mark.parametrize(
    "raw",
    [b"", b"hello", tar_bytes(), zip_bytes(), gzip.compress(b"{}"), gzip.compress(b"")],
    ids=["nothing", "text", "empty tar", "empty zip", "packed json", "packed nothing"],
)
def test_what_is_no_archive_or_has_no_file_says_so(tmp_path: Path, raw: bytes) -> None:
    report = unpacked(tmp_path, raw)
    assert report.failure is not None
    assert not report.folder.exists()


def test_a_tar_member_of_negative_size_does_not_loop(tmp_path: Path) -> None:
    info = tarfile.TarInfo("neg")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 8 + (2**32 - 512 * 3).to_bytes(4, "big")
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    before = time.monotonic()
    assert unpacked(tmp_path, tar_bytes(("a", b"1"))[:1024] + bytes(header) + bytes(1024)).failure is not None
    assert time.monotonic() - before < 5


def test_chained_and_huge_tar_headers_are_refused(tmp_path: Path) -> None:
    long = tarfile.TarInfo("x")
    long.type, long.size = tarfile.GNUTYPE_LONGNAME, 0
    chained = long.tobuf(tarfile.GNU_FORMAT) * 5000
    huge = tarfile.TarInfo("x")
    huge.type, huge.size = tarfile.XHDTYPE, 2**33
    for number, raw in enumerate((chained, huge.tobuf(tarfile.GNU_FORMAT) + bytes(100_000))):
        place = tmp_path / str(number)
        place.mkdir()
        assert unpacked(place, raw + bytes(1024)).failure is not None


def test_unpacking_into_a_folder_that_exists_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("kept")
    with pytest.raises(FileExistsError):
        unpacked(tmp_path, zip_bytes(("a", b"1")))
    assert (tmp_path / "out" / "mine").read_text() == "kept"


def test_unpacking_stops_at_its_deadline(tmp_path: Path) -> None:
    assert_nothing_left(unpacked(tmp_path, tar_bytes(("a", b"1")), ArchiveLimits(seconds=0)), "seconds")
