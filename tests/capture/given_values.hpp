// Expected values from HDF5 files that independent implementations wrote.
#pragma once

#include <hdf5.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

namespace kvreplay::testing {

namespace detail {
inline hid_t native(float) {
  return H5T_NATIVE_FLOAT;
}
inline hid_t native(std::uint32_t) {
  return H5T_NATIVE_UINT32;
}
}  // namespace detail

/// A whole dataset, flat.
template <class T>
std::vector<T> read_dataset(const std::filesystem::path& path, const std::string& name) {
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  const hid_t dataset = file < 0 ? -1 : H5Dopen2(file, name.c_str(), H5P_DEFAULT);
  if (dataset < 0) throw std::runtime_error("cannot open " + path.string() + ":" + name);
  const hid_t space = H5Dget_space(dataset);
  std::vector<T> values(static_cast<std::size_t>(H5Sget_simple_extent_npoints(space)));
  const herr_t status =
      H5Dread(dataset, detail::native(T{}), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Sclose(space);
  H5Dclose(dataset);
  H5Fclose(file);
  if (status < 0) throw std::runtime_error("cannot read " + path.string() + ":" + name);
  return values;
}

}  // namespace kvreplay::testing
