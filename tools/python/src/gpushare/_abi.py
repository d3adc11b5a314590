# SPDX-License-Identifier: MIT
"""include/gpushare.h for ctypes, as tools/python/abi.py writes it: don't edit."""
# ruff: noqa
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_int64,
                    c_size_t, c_ubyte, c_uint, c_uint16, c_uint32, c_uint64, c_uint8, c_ushort,
                    c_void_p)
from typing import Any, Dict

VERSION_MAJOR = 0
VERSION_MINOR = 1
VERSION_PATCH = 0
NAME_MAX = 255
UUID_SIZE = 16
COMMAND_MAX = 63
TAGS_MAX = 4
TAG_KEY_MAX = 31
TAG_VALUE_MAX = 127
COUNTS_MAX = 32

STATUSES = {
    "OK": (0, "done"),
    "E_INVALID": (-1, "invalid argument"),
    "E_NAME": (-2, "not a valid buffer name"),
    "E_NOT_FOUND": (-3, "no such buffer"),
    "E_EXISTS": (-4, "the name is taken"),
    "E_DENIED": (-5, "not permitted"),
    "E_TIMED_OUT": (-6, "timed out"),
    "E_NO_REGISTRY": (-7, "the registry can't be reached"),
    "E_PROTOCOL": (-8, "the registry's answer makes no sense"),
    "E_LIMIT": (-9, "a limit is reached"),
    "E_RANGE": (-10, "offset or length past the end of the buffer"),
    "E_NO_MEMORY": (-11, "out of memory"),
    "E_NO_DRIVER": (-12, "no usable CUDA driver"),
    "E_DEVICE": (-13, "the buffer's GPU can't be reached from here"),
    "E_CUDA": (-14, "a CUDA call failed"),
    "E_NOT_SUPPORTED": (-15, "not supported"),
    "E_NOT_SHAREABLE": (-16, "this memory can't be shared"),
    "E_OWNER_GONE": (-17, "the owner is gone"),
    "E_IO": (-18, "reading or writing failed"),
    "E_FORKED": (-19, "the session belongs to the parent process"),
    "E_CANCELLED": (-20, "cancelled by the caller"),
    "E_READ_ONLY": (-21, "the buffer is read-only here"),
    "E_ADDRESS_TAKEN": (-22, "the owner's address is taken here"),
    "E_NOT_READY": (-23, "not done yet"),
}

BACKINGS = {
    "IPC": (1, "ipc"),
    "VMM": (2, "vmm"),
    "HOST": (3, "host"),
    "EVENT": (4, "event"),
}

FLAGS = {
    "KEEP": (1, "keep"),
    "READONLY": (2, "readonly"),
    "VMM": (4, "vmm"),
    "UNIFIED": (8, "unified"),
    "STAGED": (16, "staged"),
}

STATES = {
    "SHARED": (1, "shared"),
    "KEPT": (2, "kept"),
    "WITHDRAWN": (3, "withdrawn"),
    "REPLACED": (4, "replaced"),
}

ACCESSES = {
    "READ": (1, "read"),
    "WRITE": (2, "write"),
}

CACHINGS = {
    "WRITE_COMBINED": (1, "write-combined"),
    "CACHED": (2, "cached"),
}

NOTICES = {
    "SHARE": (1, "share"),
    "ATTACH": (2, "attach"),
    "DETACH": (3, "detach"),
    "PUBLISH": (4, "publish"),
    "WITHDRAW": (5, "withdraw"),
    "UNLINK": (6, "unlink"),
    "DEFERRED": (7, "deferred"),
    "OWNER_GONE": (8, "owner-gone"),
    "EXPIRE": (9, "expire"),
    "REMOVE": (10, "remove"),
    "LOST": (100, "lost"),
    "RESTART": (101, "restart"),
}

ORDERINGS = {
    "NONE": (0, "none"),
    "HOST": (1, "host"),
    "HOST_FUNCTION": (2, "host-functions"),
    "STREAM": (3, "stream-memory-operations"),
}


class OpenOptions(Structure):
    """struct gpushare_open_options"""

    _fields_ = [
        ("directory", c_char_p),
        ("timeout_ms", c_uint),
        ("no_autostart", c_int),
    ]


class AttachOptions(Structure):
    """struct gpushare_attach_options"""

    _fields_ = [
        ("wait_ms", c_uint),
        ("same_address", c_int),
        ("prefer_same_address", c_int),
        ("on_device", c_int),
        ("device", c_int),
        ("passive", c_int),
        ("host_only", c_int),
        ("read_only", c_int),
    ]


class AllocOptions(Structure):
    """struct gpushare_alloc_options"""

    _fields_ = [
        ("device", c_int),
        ("flags", c_uint32),
        ("ttl_s", c_uint32),
        ("adopt", c_int),
        ("mode", c_uint32),
        ("group", c_char_p),
    ]


class ShareOptions(Structure):
    """struct gpushare_share_options"""

    _fields_ = [
        ("mode", c_uint32),
        ("group", c_char_p),
        ("staged", c_int),
    ]


class EventOptions(Structure):
    """struct gpushare_event_options"""

    _fields_ = [
        ("wait_ms", c_uint),
        ("on_device", c_int),
        ("device", c_int),
    ]


class MapOptions(Structure):
    """struct gpushare_map_options"""

    _fields_ = [
        ("need_coherent", c_int),
    ]


class MapInfo(Structure):
    """struct gpushare_map_info"""

    _fields_ = [
        ("backend", c_char_p),
        ("caching", c_int),
        ("coherent", c_int),
        ("atom_size", c_size_t),
    ]


class Tag(Structure):
    """struct gpushare_tag"""

    _fields_ = [
        ("key", c_char * 32),
        ("value", c_char * 128),
    ]


class Part(Structure):
    """struct gpushare_part"""

    _fields_ = [
        ("name", c_char_p),
        ("offset", c_size_t),
        ("size", c_size_t),
        ("tags", POINTER(Tag)),
        ("tag_count", c_size_t),
    ]


class Info(Structure):
    """struct gpushare_info"""

    _fields_ = [
        ("name", c_char * 256),
        ("generation", c_uint64),
        ("size", c_uint64),
        ("base_offset", c_uint64),
        ("base_size", c_uint64),
        ("device_uuid", c_ubyte * 16),
        ("backing", c_int),
        ("owner_uid", c_uint32),
        ("owner_pid", c_int32),
        ("owner_started", c_uint64),
        ("owner_command", c_char * 64),
        ("attachers", c_uint32),
        ("created_unix_ns", c_uint64),
        ("flags", c_uint32),
        ("ttl_s", c_uint32),
        ("ttl_left_s", c_uint32),
        ("owner_alive", c_int),
        ("deferred", c_int),
        ("missing", c_int),
        ("sequence", c_uint64),
        ("ordering", c_int),
        ("mode", c_uint32),
        ("owner_gid", c_uint32),
        ("isolated", c_int),
        ("tag_count", c_uint32),
        ("tags", Tag * 4),
    ]


class Holder(Structure):
    """struct gpushare_holder"""

    _fields_ = [
        ("pid", c_int32),
        ("uid", c_uint32),
        ("started", c_uint64),
        ("command", c_char * 64),
        ("count", c_uint32),
        ("own", c_int),
    ]


class Count(Structure):
    """struct gpushare_count"""

    _fields_ = [
        ("what", c_char * 24),
        ("count", c_uint64),
        ("bytes", c_uint64),
    ]


class RegistryInfo(Structure):
    """struct gpushare_registry_info"""

    _fields_ = [
        ("names", c_uint64),
        ("attachments", c_uint64),
        ("connections", c_uint64),
        ("waiters", c_uint64),
        ("requests", c_uint64),
        ("deferred", c_uint64),
        ("started_unix_ns", c_uint64),
        ("deferred_bytes", c_uint64),
        ("kept_bytes", c_uint64),
        ("kept_limit", c_uint64),
        ("descriptors", c_uint64),
        ("hidden", c_uint64),
        ("version", c_char * 32),
        ("pid", c_int32),
        ("lock_held_max_us", c_uint32),
        ("by_verb", Count * 32),
        ("by_status", Count * 32),
        ("by_backing", Count * 32),
        ("by_limit", Count * 32),
        ("by_drop", Count * 32),
        ("by_audit", Count * 32),
    ]


class Notice(Structure):
    """struct gpushare_notice"""

    _fields_ = [
        ("kind", c_int),
        ("pid", c_int32),
        ("serial", c_uint64),
        ("unix_ns", c_uint64),
        ("lost", c_uint64),
        ("published", c_uint64),
        ("rate", c_uint64),
        ("info", Info),
    ]


class DlpackOptions(Structure):
    """struct gpushare_dlpack_options"""

    _fields_ = [
        ("device_type", c_int),
        ("code", c_ubyte),
        ("bits", c_ubyte),
        ("lanes", c_ushort),
        ("versioned", c_int),
        ("ndim", c_int),
        ("shape", POINTER(c_int64)),
        ("offset", c_size_t),
    ]


# name: (result, arguments)
FUNCTIONS: Dict[str, Any] = {
    "gpushare_open": (c_int, (POINTER(OpenOptions), POINTER(c_void_p))),
    "gpushare_close": (c_int, (c_void_p,)),
    "gpushare_share": (c_int, (c_void_p, c_char_p, c_uint64, c_size_t, POINTER(c_void_p))),
    "gpushare_share_with": (c_int, (c_void_p, c_char_p, c_uint64, c_size_t, POINTER(ShareOptions), POINTER(c_void_p))),
    "gpushare_alloc": (c_int, (c_void_p, c_char_p, c_int, c_size_t, POINTER(c_void_p))),
    "gpushare_alloc_with": (c_int, (c_void_p, c_char_p, c_size_t, POINTER(AllocOptions), POINTER(c_void_p))),
    "gpushare_alloc_array": (c_int, (c_void_p, c_char_p, c_size_t, c_size_t, POINTER(AllocOptions), POINTER(c_void_p))),
    "gpushare_attach": (c_int, (c_void_p, c_char_p, POINTER(AttachOptions), POINTER(c_void_p))),
    "gpushare_detach": (c_int, (c_void_p,)),
    "gpushare_free": (c_int, (c_void_p,)),
    "gpushare_commit": (c_int, (c_void_p,)),
    "gpushare_share_parts": (c_int, (c_void_p, POINTER(Part), c_size_t)),
    "gpushare_unlink": (c_int, (c_void_p, c_char_p)),
    "gpushare_tag": (c_int, (c_void_p, c_char_p, POINTER(Tag), c_size_t)),
    "gpushare_tags": (c_int, (c_void_p, POINTER(Tag), POINTER(c_size_t))),
    "gpushare_holders": (c_int, (c_void_p, c_char_p, c_uint64, CFUNCTYPE(c_int, POINTER(Holder), c_void_p), c_void_p)),
    "gpushare_stat": (c_int, (c_void_p, c_char_p, POINTER(Info))),
    "gpushare_list": (c_int, (c_void_p, c_char_p, CFUNCTYPE(c_int, POINTER(Info), c_void_p), c_void_p)),
    "gpushare_list_deferred": (c_int, (c_void_p, c_char_p, CFUNCTYPE(c_int, POINTER(Info), c_void_p), c_void_p)),
    "gpushare_list_events": (c_int, (c_void_p, c_char_p, CFUNCTYPE(c_int, POINTER(Info), c_void_p), c_void_p)),
    "gpushare_stat_registry": (c_int, (c_void_p, POINTER(RegistryInfo))),
    "gpushare_watch": (c_int, (c_void_p, c_char_p, POINTER(c_void_p))),
    "gpushare_watch_next": (c_int, (c_void_p, c_int, POINTER(Notice))),
    "gpushare_watch_fd": (c_int, (c_void_p,)),
    "gpushare_watch_close": (None, (c_void_p,)),
    "gpushare_notice_text": (c_char_p, (c_int,)),
    "gpushare_state": (c_int, (c_void_p, POINTER(c_int))),
    "gpushare_state_text": (c_char_p, (c_int,)),
    "gpushare_pointer": (c_uint64, (c_void_p,)),
    "gpushare_size": (c_size_t, (c_void_p,)),
    "gpushare_device": (c_int, (c_void_p,)),
    "gpushare_is_read_only": (c_int, (c_void_p,)),
    "gpushare_was_adopted": (c_int, (c_void_p,)),
    "gpushare_buffer_info": (c_int, (c_void_p, POINTER(Info))),
    "gpushare_read": (c_int, (c_void_p, c_size_t, c_size_t, CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p), c_void_p)),
    "gpushare_write": (c_int, (c_void_p, c_size_t, c_size_t, CFUNCTYPE(c_int, c_void_p, c_size_t, c_void_p), c_void_p)),
    "gpushare_copy_from": (c_int, (c_void_p, c_size_t, c_void_p, c_size_t)),
    "gpushare_copy_to": (c_int, (c_void_p, c_size_t, c_void_p, c_size_t)),
    "gpushare_map": (c_int, (c_void_p, c_size_t, c_size_t, c_uint, POINTER(c_void_p))),
    "gpushare_map_with": (c_int, (c_void_p, c_size_t, c_size_t, c_uint, POINTER(MapOptions), POINTER(c_void_p))),
    "gpushare_map_data": (c_void_p, (c_void_p,)),
    "gpushare_map_size": (c_size_t, (c_void_p,)),
    "gpushare_map_info": (c_int, (c_void_p, POINTER(MapInfo))),
    "gpushare_map_flush": (c_int, (c_void_p, c_size_t, c_size_t)),
    "gpushare_map_invalidate": (c_int, (c_void_p, c_size_t, c_size_t)),
    "gpushare_unmap": (c_int, (c_void_p,)),
    "gpushare_mirror_open": (c_int, (c_void_p, c_size_t, c_size_t, c_uint, POINTER(c_void_p))),
    "gpushare_mirror_data": (c_void_p, (c_void_p,)),
    "gpushare_mirror_size": (c_size_t, (c_void_p,)),
    "gpushare_mirror_sync": (c_int, (c_void_p,)),
    "gpushare_mirror_close": (c_int, (c_void_p,)),
    "gpushare_mirror_drop": (None, (c_void_p,)),
    "gpushare_mirror_scope_end": (None, (POINTER(c_void_p),)),
    "gpushare_event_create": (c_int, (c_void_p, c_char_p, c_int, c_uint, POINTER(c_void_p))),
    "gpushare_event_create_with": (c_int, (c_void_p, c_char_p, c_int, c_uint, POINTER(ShareOptions), POINTER(c_void_p))),
    "gpushare_event_open": (c_int, (c_void_p, c_char_p, POINTER(EventOptions), POINTER(c_void_p))),
    "gpushare_event_record": (c_int, (c_void_p, c_void_p)),
    "gpushare_event_wait": (c_int, (c_void_p, c_void_p)),
    "gpushare_event_query": (c_int, (c_void_p,)),
    "gpushare_event_wait_host": (c_int, (c_void_p, c_int)),
    "gpushare_event_close": (c_int, (c_void_p,)),
    "gpushare_event_handle": (c_void_p, (c_void_p,)),
    "gpushare_event_info": (c_int, (c_void_p, POINTER(Info))),
    "gpushare_dlpack": (c_int, (c_void_p, POINTER(DlpackOptions), POINTER(c_void_p))),
    "gpushare_publish": (c_int, (c_void_p, c_void_p, POINTER(c_uint64))),
    "gpushare_publish_host": (c_int, (c_void_p, POINTER(c_uint64))),
    "gpushare_acquire": (c_int, (c_void_p, c_void_p, c_uint64)),
    "gpushare_acquire_host": (c_int, (c_void_p, c_uint64, c_int, POINTER(c_uint64))),
    "gpushare_release": (c_int, (c_void_p, c_void_p, c_uint64)),
    "gpushare_release_host": (c_int, (c_void_p, c_uint64)),
    "gpushare_reclaim": (c_int, (c_void_p, c_void_p, c_uint64)),
    "gpushare_reclaim_host": (c_int, (c_void_p, c_uint64, c_int)),
    "gpushare_join": (c_int, (c_void_p, POINTER(c_uint64))),
    "gpushare_leave": (c_int, (c_void_p,)),
    "gpushare_sequence": (c_int, (c_void_p, POINTER(c_uint64))),
    "gpushare_order_status": (c_int, (c_void_p,)),
    "gpushare_ordering": (c_int, (c_void_p,)),
    "gpushare_ordering_text": (c_char_p, (c_int,)),
    "gpushare_status_text": (c_char_p, (c_int,)),
    "gpushare_explain": (c_char_p, ()),
    "gpushare_version": (c_char_p, ()),
}
