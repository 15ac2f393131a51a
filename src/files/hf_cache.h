// SPDX-License-Identifier: Apache-2.0
// Finds files of Hugging Face repositories that are already in the cache of this machine. Nothing is downloaded.
#pragma once

#include <optional>
#include <string>

namespace ballast {

/// The folder of the Hugging Face cache: $HF_HUB_CACHE, else $HF_HOME/hub, else $XDG_CACHE_HOME/huggingface/hub,
/// else ~/.cache/huggingface/hub. It need not exist.
std::string hf_cache_folder();

/// Path of `filename` in the newest cached snapshot of a repository: the one refs/main names, else, when that lacks
/// the file or the reference, the first snapshot in name order that holds it.
///
/// @param kind      "models" or "datasets"
/// @param id        "org/name" or "name"
/// @param filename  path inside the repository; empty: the snapshot's folder itself
/// @return empty when the id is not of that form or nothing fitting is cached
/// @source the cache layout that huggingface_hub documents: <kind>--<org>--<name>/{refs,snapshots}
std::optional<std::string> find_in_hf_cache(const std::string& kind, const std::string& id,
                                            const std::string& filename);

}  // namespace ballast
